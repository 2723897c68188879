// A service whose settings are read again now and then. Main replaces a shared pointer
// while a worker copies it, and nobody holds a lock: the worker may take hold of settings
// whose last owner is just giving them back.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

struct Settings {
    std::string host;
    int limit = 0;
    std::map<std::string, int> weights;
};

static std::shared_ptr<const Settings> current;
#ifdef FIXED
static std::mutex guard;
#endif
static std::atomic<bool> done{false};

static std::shared_ptr<const Settings> parse(unsigned version) {
    auto made = std::make_shared<Settings>();
    made->host = "node-" + std::to_string(version) + ".example.internal";
    made->limit = 10 + version % 7;
    made->weights["read"] = version % 5 + 1;
    made->weights["write"] = version % 3 + 1;
    return made;
}

static void reload(unsigned version) {
    auto fresh = parse(version);
#ifdef FIXED
    std::lock_guard<std::mutex> hold(guard);
#endif
    current = fresh;
}

static std::shared_ptr<const Settings> settings() {
#ifdef FIXED
    std::lock_guard<std::mutex> hold(guard);
#endif
    return current;
}

static int cost_of(unsigned request) {
    auto now = settings();
    auto weight = now->weights.find(request % 4 ? "read" : "write");
    int factor = weight == now->weights.end() ? 1 : weight->second;
    unsigned price = now->limit;
    for (int i = 0; i < 200; i++)
        price = price * 31 + factor * now->host[i % now->host.size()];
    return price % 100;
}

static void work(unsigned long *total) {
    unsigned request = 0;
    while (!done)
        *total += cost_of(request++);
}

int main(int argc, char **argv) {
    unsigned reloads = argc > 1 ? atoi(argv[1]) : 6;
    current = parse(0);
    unsigned long total = 0;
    std::thread worker(work, &total);
    for (unsigned version = 1; version <= reloads; version++) {
        std::this_thread::sleep_for(std::chrono::microseconds(1800));
        reload(version);
    }
    done = true;
    worker.join();
    printf("%s %d\n", current->host.c_str(), total != 0);
    return 0;
}
