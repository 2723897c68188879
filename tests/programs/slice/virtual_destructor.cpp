// delete calls the destructor that the table names. (touch() first wrote
// `limit` too; a store of the same global counts wherever it stands, so that
// annotation was wrong.)
static int limit = 1;
static int label;
class Base {
public:
    virtual ~Base() {}
    virtual void touch() { label = 3; } // NOSLICE
};
class Last : public Base {
public:
    ~Last() override { limit = 0; } // SLICE!
};
int main(int argc, char **) {
    Base *base = new Last; // SLICE!
    label = argc; // NOSLICE
    delete base; // SLICE!
    return 10 / limit; // FAIL
}
