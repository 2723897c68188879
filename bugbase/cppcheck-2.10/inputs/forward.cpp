// Macros before classes that are only declared.
EXPORTED struct Address;
EXPORTED class Session;
EXPORTED union Word;

int connect(Address *address);
int close(Session *session);

int both(Address *address, Session *session)
{
    if (connect(address) != 0)
        return 1;
    return close(session);
}
