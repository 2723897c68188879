// A cache of named documents. A look-up hands out a plain pointer and gives the lock
// back; a sweeper thread erases what nobody asked for lately. The pointer may then
// lead to a document that is gone.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <atomic>
#include <unordered_map>
#include <vector>

struct Document {
    std::vector<unsigned> words;
    unsigned last_use = 0;

    unsigned checksum(unsigned part) const {
        unsigned sum = 0;
        for (size_t i = part; i < words.size(); i += 8)
            sum = sum * 31 + words[i];
        return sum;
    }
};

class Cache {
public:
#ifdef FIXED
    using Handle = std::shared_ptr<Document>;
#else
    using Handle = Document *;
#endif

    Handle find(const std::string &name, unsigned now) {
        std::lock_guard<std::mutex> hold(lock_);
        auto found = documents_.find(name);
        if (found == documents_.end())
            return nullptr;
        found->second->last_use = now;
#ifdef FIXED
        return found->second;
#else
        return found->second.get();
#endif
    }

    void store(const std::string &name, std::vector<unsigned> words, unsigned now) {
        std::lock_guard<std::mutex> hold(lock_);
        auto &slot = documents_[name];
        if (slot)
            return;
#ifdef FIXED
        slot = std::make_shared<Document>();
#else
        slot = std::make_unique<Document>();
#endif
        slot->words = std::move(words);
        slot->last_use = now;
    }

    void evict(const std::string &name) {
        std::lock_guard<std::mutex> hold(lock_);
        documents_.erase(name);
    }

    size_t size() {
        std::lock_guard<std::mutex> hold(lock_);
        return documents_.size();
    }

private:
    std::mutex lock_;
#ifdef FIXED
    std::unordered_map<std::string, std::shared_ptr<Document>> documents_;
#else
    std::unordered_map<std::string, std::unique_ptr<Document>> documents_;
#endif
};

static Cache cache;
static std::atomic<bool> done{false};
static std::atomic<unsigned long> parts_served{0};

static std::string name_of(unsigned number) { return "page-" + std::to_string(number); }

static std::vector<unsigned> load(unsigned number) {
    std::vector<unsigned> words(400);
    for (unsigned i = 0; i < words.size(); i++)
        words[i] = number * 31 + i;
    return words;
}

static void sweep(unsigned names, unsigned seed) {
    while (!done) {
        std::this_thread::sleep_for(std::chrono::microseconds(700));
        seed = seed * 1103515245 + 12345;
        cache.evict(name_of((seed >> 16) % names));
    }
}

static unsigned long serve(unsigned requests, unsigned names, unsigned seed) {
    unsigned long sum = 0;
    for (unsigned i = 0; i < requests; i++) {
        seed = seed * 1103515245 + 12345;
        unsigned number = (seed >> 16) % names;
        auto page = cache.find(name_of(number), i);
        if (!page) {
            cache.store(name_of(number), load(number), i);
            continue;
        }
        for (unsigned part = 0; part < 8; part++) {
            sum += page->checksum(part);
            parts_served++;
        }
    }
    return sum;
}

int main(int argc, char **argv) {
    unsigned requests = argc > 1 ? atoi(argv[1]) : 14000;
    unsigned names = argc > 2 ? atoi(argv[2]) : 24;
    unsigned seed = std::chrono::steady_clock::now().time_since_epoch().count();
    std::thread sweeper(sweep, names, seed);
    unsigned long sum = serve(requests, names, seed + 1);
    done = true;
    sweeper.join();
    printf("%zu documents, %s\n", cache.size(), sum ? "read" : "nothing read");
    return 0;
}
