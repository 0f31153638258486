#include "io/trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/attempt.h"
#include "base/clock.h"
#include "io/append.h"
#include "io/forwarding_file.h"

namespace forebay::io {

namespace {

constexpr std::uint64_t kWaitMinNs = 100'000;

void tell(const std::string& path, const char* kind, std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t offset,
          std::uint64_t bytes) noexcept {
    if (path.empty()) return;
    (void)attempt([&] {   // without memory the line is lost
        (void)append_line(path,
                          fmt::format(R"({{"kind":"{}","pid":{},"begin_ns":{},"end_ns":{},"offset":{},"bytes":{}}})",
                                      kind, ::getpid(), begin_ns, end_ns, offset, bytes));
    });
}

class TracedReads final : public ForwardingFile {
  public:
    TracedReads(std::shared_ptr<File> file, const Trace& trace) : ForwardingFile(std::move(file)), trace_(trace) {}
    Result<std::size_t> read_at(std::uint64_t offset, MutableBytes into) override {
        const std::uint64_t begin_ns = monotonic_ns();
        auto got = file().read_at(offset, into);
        if (got) trace_.read(begin_ns, monotonic_ns(), offset, got.value());
        return got;
    }

  private:
    const Trace trace_;
};

}   // namespace

void Trace::wrote(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t offset,
                  std::uint64_t bytes) const noexcept {
    tell(path_, "write", begin_ns, end_ns, offset, bytes);
}

void Trace::read(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t offset,
                 std::uint64_t bytes) const noexcept {
    tell(path_, "read", begin_ns, end_ns, offset, bytes);
}

void Trace::waited(std::uint64_t begin_ns, std::uint64_t end_ns) const noexcept {
    if (end_ns - begin_ns >= kWaitMinNs) tell(path_, "wait", begin_ns, end_ns, 0, 0);
}

std::shared_ptr<File> traced_reads(std::shared_ptr<File> file, const Trace& trace) {
    if (!trace.is_on()) return file;
    return std::make_shared<TracedReads>(std::move(file), trace);
}

}   // namespace forebay::io
