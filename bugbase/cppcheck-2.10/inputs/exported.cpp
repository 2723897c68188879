// Macros before classes with a body.
#define API
API class Session
{
public:
    explicit Session(int number) : number(number) {}
    int key() const { return number * 7; }
private:
    int number;
};

EXPORTED struct Address
{
    const char *host;
    int port;
};

int use(const Address &address)
{
    Session session(address.port);
    return session.key();
}
