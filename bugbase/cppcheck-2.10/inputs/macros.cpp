// Macros that look like calls.
BEGIN_NAMESPACE(net)
VISIBLE struct Counter
{
    int value;
    void add(int by) { value += by; }
};
END_NAMESPACE(net)

int run(int rounds)
{
    Counter counter = { 0 };
    for (int i = 0; i < rounds; i++)
        counter.add(i);
    return counter.value;
}
