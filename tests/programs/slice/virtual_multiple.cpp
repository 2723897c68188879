// Multiple inheritance: the second base's slot holds a thunk.
class Reader {
public:
    virtual int read(int n) { return n; } // NOSLICE
};
class Writer {
public:
    virtual int write(int n) { return n + 1; } // SLICE!
};
class File : public Reader, public Writer {
public:
    int read(int n) override { return n + 2; } // NOSLICE
    int write(int n) override { return n - 1; } // SLICE!
};
static int share(Writer *writer, int n) {
    int count = writer->write(n); // SLICE!
    return 100 / count; // FAIL
}
int main(int argc, char **) {
    File file;
    return share(&file, argc); // SLICE!
}
