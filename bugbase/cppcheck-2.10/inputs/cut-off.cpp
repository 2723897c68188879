// A file that was cut off: no semicolon, brace or parenthesis follows the macro.
int listen(int port);
int accept(int listening);

int serve(int port)
{
    int listening = listen(port);
    return accept(listening);
}

EXPORTED struct Address : public Socket
