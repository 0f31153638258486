// Measures a staging server on a Unix socket: the throughput of its clients, against plain sockets that copy the same
// bytes, and the cost of small writes, against staging in the process itself.
//
//   server_bench DIRECTORY [clients] [megabytes of each client]
//
// Clients are threads of this process; the server, and the receiver of the plain sockets, are child processes. The
// plain receiver copies its bytes once, as the server copies them to its log. Large writes of all turns go to one
// server: in the first turn its log has no pages yet. Small writes have a new server, or a new engine, each turn. The
// program reads each file back and compares it. Prints the median of each figure, one per line.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/options.h"
#include "io/open_existing.h"
#include "io/posix_file.h"
#include "io/socket.h"
#include "server/server.h"
#include "stage/engine.h"
#include "wire/remote_file.h"

namespace {

using namespace forebay;
using Content = std::vector<std::byte>;

constexpr std::size_t kBlock = std::size_t{1} << 20, kSmall = 4096;
constexpr int kTurns = 5;

[[noreturn]] void fail(std::string_view what, std::string_view why) {
    std::fprintf(stderr, "%.*s: %.*s\n", static_cast<int>(what.size()), what.data(), static_cast<int>(why.size()),
                 why.data());
    std::_Exit(1);
}
void require(const Status& status, std::string_view what) {
    if (!status) fail(what, status.message());
}
template <class T>
T take(Result<T> result, std::string_view what) {
    if (!result) fail(what, result.status().message());
    return std::move(result).value();
}

struct Bench {
    std::string directory;
    std::size_t clients = 4, blocks = 256;
    std::string socket = "/socket";
    io::Address address() const { return {.path = directory + socket}; }
    std::string file(std::size_t client) const { return directory + "/file" + std::to_string(client); }
};

double processor_s(const rusage& used) {
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double own_processor_s() {
    rusage used{};
    (void)::getrusage(RUSAGE_SELF, &used);
    return processor_s(used);
}

// A child that serves until the other end of `wake` is closed. Its first byte on `ready` reports that it is ready.
class Child {
  public:
    explicit Child(const std::function<void(int wake, int ready)>& serve) {
        std::array<int, 2> wake{}, ready{};
        if (::pipe(wake.data()) != 0 || ::pipe(ready.data()) != 0) fail("pipe", std::strerror(errno));
        process_ = ::fork();
        if (process_ == 0) {
            ::close(wake[1]);
            serve(wake[0], ready[1]);
            std::_Exit(0);
        }
        ::close(wake[0]);
        ::close(ready[1]);
        char byte = 0;
        if (::read(ready[0], &byte, 1) != 1) fail("child", "it has ended");
        ::close(ready[0]);
        wake_ = wake[1];
    }
    // Ends the child, and returns its processor time in seconds.
    double end() {
        ::close(wake_);
        int status = 0;
        rusage used{};
        if (::wait4(process_, &status, 0, &used) != process_ || status != 0) fail("child", "it has failed");
        return processor_s(used);
    }

  private:
    pid_t process_ = -1;
    int wake_ = -1;
};

void tell_ready(int ready) {
    if (::write(ready, "", 1) != 1) fail("pipe", std::strerror(errno));
}

LoadedOptions options_of(const Bench& bench) {
    LoadedOptions loaded;
    loaded.options.nls = bench.directory + "/nls";
    loaded.options.registry = bench.directory;
    loaded.options.size = std::uint64_t{4} << 30;
    return loaded;
}

void serve_staging(const Bench& bench, int wake, int ready) {
    const LoadedOptions loaded = options_of(bench);
    auto listener = take(io::Listener::open(bench.address()), "listen");
    server::Server server({loaded, bench.clients,
                           [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }},
                          std::move(listener));
    tell_ready(ready);
    require(server.run(wake), "serve");
    (void)server.await_sessions();
}

void serve_plain(const Bench& bench, int wake, int ready) {
    auto listener = take(io::Listener::open(bench.address()), "listen");
    tell_ready(ready);
    std::vector<std::thread> threads;
    for (;;) {
        std::shared_ptr<io::Socket> socket = take(listener->accept(wake), "accept");
        if (socket == nullptr) break;
        threads.emplace_back([socket] {
            Content buffer(kBlock), copy(64 * kBlock);
            for (std::size_t at = 0; socket->receive(buffer); at = (at + kBlock) % copy.size())
                std::memcpy(copy.data() + at, buffer.data(), kBlock);
            const std::byte done{1};
            const std::array<io::Bytes, 1> piece{io::Bytes(&done, 1)};
            (void)socket->send(piece);
        });
    }
    for (std::thread& thread : threads) thread.join();
}

double seconds_of(const Bench& bench, const std::function<void(std::size_t client)>& act) {
    std::vector<std::thread> threads;
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < bench.clients; ++i) threads.emplace_back(act, i);
    for (std::thread& thread : threads) thread.join();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Content block_of(std::size_t client) { return Content(kBlock, static_cast<std::byte>(client + 1)); }

double plain(const Bench& bench) {
    Child child([&](int wake, int ready) { serve_plain(bench, wake, ready); });
    const double seconds = seconds_of(bench, [&](std::size_t client) {
        const Content block = block_of(client);
        auto socket = take(io::Socket::connect(bench.address()), "connect");
        for (std::size_t i = 0; i < bench.blocks; ++i) {
            const std::array<io::Bytes, 1> piece{io::Bytes(block)};
            require(socket->send(piece), "send");
        }
        ::shutdown(socket->number(), SHUT_WR);
        std::byte done{};
        require(socket->receive({&done, 1}), "receive");
    });
    (void)child.end();
    return seconds;
}

io::OpenedExisting make_file(const Bench& bench, std::size_t client) {
    const std::string path = bench.file(client);
    ::close(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    return take(io::open_existing(path), "open");
}

std::unique_ptr<wire::RemoteFile> open_remote(const Bench& bench, std::size_t client) {
    auto file = io::make_posix_file(make_file(bench, client).descriptor, bench.file(client));
    wire::RemoteFile::Setup setup{{bench.address(), 600}, std::move(file), true, false};
    return take(wire::RemoteFile::open(setup), "open through the server");
}

void compare(const Bench& bench) {
    for (std::size_t client = 0; client < bench.clients; ++client) {
        const Content expected = block_of(client);
        Content got(kBlock);
        auto file = io::make_posix_file(take(io::open_existing(bench.file(client)), "open").descriptor, "file");
        if (take(file->size(), "size") != bench.blocks * kBlock) fail(bench.file(client), "its size is wrong");
        for (std::size_t i = 0; i < bench.blocks; ++i)
            if (take(file->read_at(i * kBlock, got), "read") != kBlock || got != expected)
                fail(bench.file(client), "its bytes are wrong");
    }
}

// Makes writes that do not adjoin, in a stride that fills the file.
template <class Write>
void write_small(const Bench& bench, std::size_t client, const Write& write) {
    const Content block = block_of(client);
    const std::size_t half = bench.blocks * kBlock / kSmall / 2;
    for (std::size_t i = 0; i < half; ++i)
        for (const std::size_t at : {i, i + half}) require(write(at * kSmall, io::Bytes(block).first(kSmall)), "write");
}

struct Figure {
    double committed_s = 0, closed_s = 0, processor_s = 0;
};

// Measures writes through the server. The processor time is that of the clients.
Figure through_server(const Bench& bench, bool small) {
    std::vector<std::unique_ptr<wire::RemoteFile>> files;
    for (std::size_t i = 0; i < bench.clients; ++i) files.push_back(open_remote(bench, i));
    Figure figure;
    const double before = own_processor_s();
    figure.committed_s = seconds_of(bench, [&](std::size_t client) {
        wire::RemoteFile& file = *files[client];
        if (small) {
            write_small(bench, client, [&](std::uint64_t at, io::Bytes bytes) { return file.write_at(at, bytes); });
        } else {
            const Content block = block_of(client);
            for (std::size_t i = 0; i < bench.blocks; ++i) require(file.write_at(i * kBlock, block), "write");
        }
        require(file.commit(), "commit");
    });
    figure.closed_s = figure.committed_s +
                      seconds_of(bench, [&](std::size_t client) { require(files[client]->close(), "close"); });
    figure.processor_s = own_processor_s() - before;
    files.clear();
    compare(bench);
    return figure;
}

// Measures small writes. The processor time includes the server's.
Figure small_through_server(const Bench& bench) {
    Child child([&](int wake, int ready) { serve_staging(bench, wake, ready); });
    Figure figure = through_server(bench, true);
    figure.processor_s += child.end();
    return figure;
}

// Stages the same writes in the process that makes them. Returns its processor time in seconds.
double small_staged_here(const Bench& bench) {
    Child child([&](int, int ready) {
        auto engine = stage::Engine::create(options_of(bench));
        std::vector<std::shared_ptr<stage::StagedFile>> files;
        for (std::size_t i = 0; i < bench.clients; ++i) {
            auto file = io::make_posix_file(make_file(bench, i).descriptor, bench.file(i));
            files.push_back(take(engine->attach({std::move(file), true}), "attach").file);
        }
        (void)seconds_of(bench, [&](std::size_t client) {
            stage::StagedFile& file = *files[client];
            write_small(bench, client, [&](std::uint64_t at, io::Bytes bytes) {
                return file.write(at, bytes, stage::ByteClass::kRaw);
            });
            require(file.commit(), "commit");
        });
        for (const auto& file : files) {
            if (file->counters().staged != bench.blocks * kBlock) fail("staging", "was not on");
            require(engine->detach(file, true), "close");
        }
        files.clear();
        engine.reset();
        tell_ready(ready);
    });
    const double seconds = child.end();
    compare(bench);
    return seconds;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}   // namespace

int main(int argc, char** argv) {
    Bench bench;
    if (argc < 2) fail("server_bench", "DIRECTORY [clients] [megabytes of each client]");
    bench.directory = std::string(argv[1]) + "/server-bench-" + std::to_string(::getpid());
    if (argc > 2) bench.clients = static_cast<std::size_t>(std::atoi(argv[2]));
    if (argc > 3) bench.blocks = static_cast<std::size_t>(std::atoi(argv[3]));
    std::filesystem::create_directories(bench.directory + "/nls");
    Bench beside = bench;
    beside.socket = "/plain";
    std::vector<double> sockets, large, large_closed, small, small_processor, local_processor;
    Child server([&](int wake, int ready) { serve_staging(bench, wake, ready); });
    const double plain_first_s = plain(beside);
    const Figure first = through_server(bench, false);
    for (int turn = 0; turn < kTurns; ++turn) {
        sockets.push_back(plain(beside));
        const Figure figure = through_server(bench, false);
        large.push_back(figure.committed_s);
        large_closed.push_back(figure.closed_s);
    }
    (void)server.end();
    for (int turn = 0; turn < kTurns; ++turn) {
        const Figure figure = small_through_server(bench);
        small.push_back(figure.committed_s);
        small_processor.push_back(figure.processor_s);
        local_processor.push_back(small_staged_here(bench));
    }
    std::filesystem::remove_all(bench.directory);
    const double mib = static_cast<double>(bench.clients * bench.blocks), writes = mib * 1024 * 1024 / kSmall;
    std::printf("plain sockets:                    %7.0f MiB/s\n", mib / median(sockets));
    std::printf("1 MiB writes, committed:          %7.0f MiB/s, %.2f of plain sockets (target: at least 0.7)\n",
                mib / median(large), median(sockets) / median(large));
    std::printf("  the first ones of a server:     %7.0f MiB/s, %.2f of plain sockets\n", mib / first.committed_s,
                plain_first_s / first.committed_s);
    std::printf("1 MiB writes, closed:             %7.0f MiB/s\n", mib / median(large_closed));
    std::printf("4 KiB writes, committed:          %7.0f /s (target: at least 100000)\n", writes / median(small));
    std::printf("processor time of a 4 KiB write:  %7.2f us, %.2f of staging it in the process (target: at most 1.3)\n",
                median(small_processor) / writes * 1e6, median(small_processor) / median(local_processor));
    return 0;
}
