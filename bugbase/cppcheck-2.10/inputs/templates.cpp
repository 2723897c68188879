// Templates, and no macro.
template <class T> struct Pair
{
    T first;
    T second;
    T sum() const { return first + second; }
};

template <class T> T largest(const Pair<T> &pair)
{
    return pair.first > pair.second ? pair.first : pair.second;
}

int main()
{
    Pair<int> pair = { 3, 4 };
    return largest(pair) - pair.sum() + 3;
}
