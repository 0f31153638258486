// Measures the staging engine without HDF5: the cost of a staged write and of a read by the number of staged extents.
//
//   engine_bench [--directory D] [--extents N]... [Google Benchmark's options]
//
// All extents lie below the last commit's end of file, so the log holds them for the next commit and their number stays
// constant. The native figures are those of `pwrite` and `pread` on the same file. With `--extents`, measures these
// numbers of extents instead of the usual ones, and more: the commit of all extents, writes, reads and commits while
// they wait for a target that takes nothing, and the close.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/options.h"
#include "io/forwarding_file.h"
#include "io/posix_file.h"
#include "stage/engine.h"

namespace {

using forebay::Status;
using forebay::stage::ByteClass;
using forebay::stage::Engine;
using forebay::stage::StagedFile;

constexpr std::uint64_t kPieceBytes = 64;   // one extent
constexpr std::uint64_t kSlotBytes = 256;   // distance of two extents, which never touch
constexpr std::uint64_t kOverlayBytes = 64 * kSlotBytes;
constexpr std::uint64_t kIterations = 20000;
constexpr std::uint64_t kFewestExtents = 1000, kMostExtents = 1000000;
constexpr std::uint64_t kCommits = 2000;

[[noreturn]] void fail(std::string_view what, std::string_view why) {
    std::fprintf(stderr, "%.*s: %.*s\n", static_cast<int>(what.size()), what.data(), static_cast<int>(why.size()),
                 why.data());
    std::exit(1);
}

void require(const Status& status, std::string_view what) {
    if (!status.is_ok()) fail(what, status.message());
}

// While it is shut, the drain's writes wait.
class Gate {
  public:
    void shut() { set(true); }
    void open() { set(false); }
    void pass() {
        std::unique_lock lock(mutex_);
        opened_.wait(lock, [this] { return !shut_; });
    }

  private:
    void set(bool shut) {
        const std::lock_guard lock(mutex_);
        shut_ = shut;
        opened_.notify_all();
    }
    std::mutex mutex_;
    std::condition_variable opened_;
    bool shut_ = false;
};

class GatedFile final : public forebay::io::ForwardingFile {
  public:
    GatedFile(std::shared_ptr<File> file, Gate& gate) : ForwardingFile(std::move(file)), gate_(gate) {}
    Status write_at(std::uint64_t offset, forebay::io::Bytes bytes) override {
        gate_.pass();
        return ForwardingFile::write_at(offset, bytes);
    }
    Status write_gather_at(std::uint64_t offset, std::span<const forebay::io::Bytes> pieces) override {
        gate_.pass();
        return ForwardingFile::write_gather_at(offset, pieces);
    }

  private:
    Gate& gate_;
};

std::uint64_t heap_bytes() {
    const auto heap = ::mallinfo2();   // of this thread's arena, and large blocks
    return heap.uordblks + heap.hblkhd;
}

// One file with `extents` staged pieces, and gaps for as many more between them.
class StagedExtents {
  public:
    StagedExtents(const std::filesystem::path& directory, std::uint64_t extents)
        : extents_(extents), path_(directory / "target"), bytes_(kOverlayBytes, std::byte{0x5a}) {
        descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (descriptor_ < 0) fail(path_.native(), "cannot be created");
        fill();
        const auto no_environment = [](const char*) -> const char* { return nullptr; };
        auto loaded = forebay::load_options("nls=" + directory.native() + ";size=8GiB", no_environment);
        engine_ = Engine::create(std::move(loaded));
        auto attached = engine_->attach(
            {std::make_unique<GatedFile>(forebay::io::adopt_posix_file(::dup(descriptor_), path_.native()), gate_),
             true});
        require(attached.status(), "attach");
        file_ = std::move(attached).value().file;
        std::vector<std::uint64_t> slots(extents_);
        std::iota(slots.begin(), slots.end(), std::uint64_t{0});
        std::shuffle(slots.begin(), slots.end(), random_);
        const std::uint64_t before = heap_bytes();
        for (const auto slot : slots) write(slot * kSlotBytes);
        heap_bytes_ = heap_bytes() - before;
        if (file_->counters().staged < extents_ * kPieceBytes) fail("staging", "was not on");
        if (file_->counters().pending < extents_ * kPieceBytes) fail("staging", "drained what it was to hold");
    }

    ~StagedExtents() {
        give_up();
        engine_.reset();
        ::close(descriptor_);
        std::filesystem::remove(path_);
    }

    StagedExtents(const StagedExtents&) = delete;
    StagedExtents& operator=(const StagedExtents&) = delete;

    void write(std::uint64_t offset) {
        require(file_->write(offset, std::span(bytes_).first(kPieceBytes), ByteClass::kRaw), "write");
    }
    void commit() { require(file_->commit(), "commit"); }
    // Commits all pieces to a target that takes none of them.
    void commit_all() {
        gate_.shut();
        commit();
    }
    // Drains all pieces.
    void close() {
        gate_.open();
        if (file_ == nullptr) return;
        require(engine_->detach(file_, true), "detach");
        file_.reset();
    }
    // Closes an empty file: no piece drains.
    void give_up() {
        gate_.open();
        if (file_ != nullptr) require(file_->truncate(0), "truncate");
        close();
    }
    void read(std::uint64_t offset, std::uint64_t size) {
        require(file_->read(offset, std::span(bytes_).first(size)), "read");
        benchmark::DoNotOptimize(bytes_.data());
    }
    // Random offsets: of staged pieces, of the gaps after them, and of the half of the file without staged bytes.
    std::uint64_t staged() { return (random_() % extents_) * kSlotBytes; }
    std::uint64_t gap() { return staged() + kSlotBytes / 2; }
    std::uint64_t unstaged() { return (extents_ + random_() % extents_) * kSlotBytes; }
    std::uint64_t window() { return (random_() % (extents_ - kOverlayBytes / kSlotBytes)) * kSlotBytes; }
    std::uint64_t next() { return extents_ * kSlotBytes + (appended_++ * kPieceBytes) % (extents_ * kSlotBytes); }

    [[nodiscard]] std::uint64_t extents() const { return extents_; }
    [[nodiscard]] std::uint64_t heap_bytes_of_all() const { return heap_bytes_; }
    [[nodiscard]] bool is_open() const { return file_ != nullptr; }
    [[nodiscard]] int descriptor() const { return descriptor_; }
    std::vector<std::byte>& bytes() { return bytes_; }

  private:
    // Fills the file below the staged pieces, so that reads find bytes in the file too. A large file stays sparse.
    void fill() {
        if (extents_ > kMostExtents) {
            if (::ftruncate(descriptor_, static_cast<off_t>(2 * extents_ * kSlotBytes)) < 0)
                fail(path_.native(), "cannot be sized");
            return;
        }
        for (std::uint64_t at = 0; at < 2 * extents_ * kSlotBytes; at += bytes_.size())
            if (::pwrite(descriptor_, bytes_.data(), bytes_.size(), static_cast<off_t>(at)) < 0)
                fail(path_.native(), "cannot be filled");
    }

    std::uint64_t extents_, appended_ = 0, heap_bytes_ = 0;
    std::filesystem::path path_;
    std::vector<std::byte> bytes_;
    std::mt19937_64 random_{1};
    int descriptor_ = -1;
    Gate gate_;   // the engine's drain uses it to its end
    std::unique_ptr<Engine> engine_;
    std::shared_ptr<StagedFile> file_;
};

// The benchmarks of one size share the extents, because making them takes longer than measuring.
std::filesystem::path directory;
std::unique_ptr<StagedExtents> current;

StagedExtents& with_extents(std::uint64_t extents) {
    if (current == nullptr || current->extents() != extents || !current->is_open()) {
        current.reset();
        current = std::make_unique<StagedExtents>(directory, extents);
    }
    return *current;
}

template <typename Operation>
void measure(benchmark::State& state, Operation operation) {
    StagedExtents& extents = with_extents(static_cast<std::uint64_t>(state.range(0)));
    for (auto _ : state) operation(extents);
    state.counters["extents"] = static_cast<double>(extents.extents());
    state.counters["heap_bytes"] = static_cast<double>(extents.heap_bytes_of_all());
}

void pwrite_piece(StagedExtents& extents) {
    if (::pwrite(extents.descriptor(), extents.bytes().data(), kPieceBytes, static_cast<off_t>(extents.unstaged())) < 0)
        fail("pwrite", "failed");
}

void pread_piece(StagedExtents& extents) {
    if (::pread(extents.descriptor(), extents.bytes().data(), kPieceBytes, static_cast<off_t>(extents.unstaged())) < 0)
        fail("pread", "failed");
}

void pread_window(StagedExtents& extents) {
    if (::pread(extents.descriptor(), extents.bytes().data(), kOverlayBytes, static_cast<off_t>(extents.window())) < 0)
        fail("pread", "failed");
}

template <typename Operation>
void add(const std::string& name, std::uint64_t extents, std::uint64_t iterations, Operation operation) {
    benchmark::RegisterBenchmark(name.c_str(), [operation](benchmark::State& state) { measure(state, operation); })
        ->Arg(static_cast<std::int64_t>(extents))
        ->Iterations(static_cast<std::int64_t>(iterations))
        ->Unit(benchmark::kNanosecond);
}

// The order matters: read benchmarks come first, those that add extents last.
void add_all(std::uint64_t extents) {
    add("native/pread", extents, kIterations, pread_piece);
    add("read/unstaged", extents, kIterations, [](StagedExtents& e) { e.read(e.unstaged(), kPieceBytes); });
    add("read/staged", extents, kIterations, [](StagedExtents& e) { e.read(e.staged(), kPieceBytes); });
    add("native/pread_window", extents, kIterations / 10, pread_window);
    add("read/overlay", extents, kIterations / 10, [](StagedExtents& e) { e.read(e.window(), kOverlayBytes); });
    add("native/pwrite", extents, kIterations, pwrite_piece);
    add("write/over", extents, kIterations, [](StagedExtents& e) { e.write(e.staged()); });
    add("write/append", extents, kIterations, [](StagedExtents& e) { e.write(e.next()); });
    add("write/scattered", extents, std::max(extents / 10, kFewestExtents), [](StagedExtents& e) { e.write(e.gap()); });
}

// The first of them ends the pieces that other benchmarks have added to.
void add_waiting(std::uint64_t extents) {
    add("give_up/all", extents, 1, [](StagedExtents& e) { e.give_up(); });
    add("commit/all", extents, 1, [](StagedExtents& e) { e.commit_all(); });
    add("waiting/read", extents, kIterations, [](StagedExtents& e) { e.read(e.staged(), kPieceBytes); });
    add("waiting/commit", extents, kCommits, [](StagedExtents& e) {
        e.write(e.staged());
        e.commit();
    });
    add("waiting/write", extents, kIterations, [](StagedExtents& e) { e.write(e.staged()); });
    add("close/all", extents, 1, [](StagedExtents& e) { e.close(); });
}

// Removes `--directory D` from the arguments. Without it, makes a temporary directory that `main` removes.
bool take_directory(int& argc, char** argv) {
    for (int i = 1; i + 1 < argc; ++i) {
        if (std::string_view(argv[i]) != "--directory") continue;
        directory = argv[i + 1];
        std::copy(argv + i + 2, argv + argc, argv + i);
        argc -= 2;
        return false;
    }
    std::string name = (std::filesystem::temp_directory_path() / "engine-bench-XXXXXX").native();
    if (::mkdtemp(name.data()) == nullptr) fail(name, "cannot be created");
    directory = name;
    return true;
}

// Removes each `--extents N` from the arguments.
std::vector<std::uint64_t> take_extents(int& argc, char** argv) {
    std::vector<std::uint64_t> extents;
    for (int i = 1; i + 1 < argc;) {
        if (std::string_view(argv[i]) != "--extents") {
            ++i;
            continue;
        }
        extents.push_back(std::strtoull(argv[i + 1], nullptr, 10));
        if (extents.back() <= kOverlayBytes / kSlotBytes) fail(argv[i + 1], "too few extents");
        std::copy(argv + i + 2, argv + argc, argv + i);
        argc -= 2;
    }
    return extents;
}

}   // namespace

int main(int argc, char** argv) {
    const bool temporary = take_directory(argc, argv);
    const auto chosen = take_extents(argc, argv);
    for (const std::uint64_t extents : chosen) {
        add_all(extents);
        add_waiting(extents);
    }
    for (std::uint64_t extents = kFewestExtents; chosen.empty() && extents <= kMostExtents; extents *= 10)
        add_all(extents);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
    current.reset();
    if (temporary) std::filesystem::remove_all(directory);
    return 0;
}
