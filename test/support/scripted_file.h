// A file that forwards calls to another one. For some calls it does what a test says: it notes, delays or fails them,
// or answers itself. FaultPlan (io/fault_file.h) makes the Nth call fail or hang. Use this file if the effect depends
// on the call itself, or if the test inspects calls afterwards.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "io/fault_file.h"
#include "io/forwarding_file.h"

namespace forebay::test {

// A read, a write, or a change or query of the size.
struct FileCall {
    io::Operation operation;
    std::uint64_t offset = 0, size = 0;   // for a change of size, `size` is the new size
    std::size_t pieces = 0;               // number of pieces of a gathering write; 0 for other calls
    const std::byte* from = nullptr;      // the memory of a write of one piece
};

// The script for the calls of all files made with it. Set the functions before the first call. Several threads may call
// them concurrently.
struct Script {
    // Called instead of the caller before the call is forwarded; may block. If it returns an error, the call fails with
    // it and is not forwarded.
    std::function<Status(const FileCall&)> before;
    // Called after a call has succeeded.
    std::function<void(const FileCall&)> after;
    std::optional<io::FileTraits> traits;   // nullopt: the traits of the file

    // The calls of this kind that have begun, in order.
    [[nodiscard]] std::vector<FileCall> calls(io::Operation operation) const {
        const std::lock_guard lock(mutex);
        std::vector<FileCall> all;
        for (const FileCall& call : begun)
            if (call.operation == operation) all.push_back(call);
        return all;
    }

    mutable std::mutex mutex;
    std::vector<FileCall> begun;   // guarded by mutex
};

class ScriptedFile final : public io::ForwardingFile {
  public:
    ScriptedFile(std::shared_ptr<io::File> file, std::shared_ptr<Script> script)
        : ForwardingFile(std::move(file)), script_(std::move(script)) {}

    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override {
        return pass(FileCall{io::Operation::kRead, offset, into.size()}, [&] { return file().read_at(offset, into); });
    }
    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        return pass(FileCall{io::Operation::kWrite, offset, bytes.size(), 0, bytes.data()},
                    [&] { return file().write_at(offset, bytes); });
    }
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        std::uint64_t size = 0;
        for (const io::Bytes& piece : pieces) size += piece.size();
        return pass(FileCall{io::Operation::kWrite, offset, size, pieces.size()},
                    [&] { return file().write_gather_at(offset, pieces); });
    }
    io::FileTraits traits() override { return script_->traits ? *script_->traits : file().traits(); }
    Result<std::uint64_t> size() override {
        return pass(FileCall{io::Operation::kSize}, [&] { return file().size(); });
    }
    Status resize(std::uint64_t size) override {
        return pass(FileCall{io::Operation::kResize, 0, size}, [&] { return file().resize(size); });
    }
    Status punch(std::uint64_t offset, std::uint64_t length) override {
        return pass(FileCall{io::Operation::kPunch, offset, length}, [&] { return file().punch(offset, length); });
    }
    Status sync() override {
        return pass(FileCall{io::Operation::kSync}, [&] { return file().sync(); });
    }

  private:
    template <class Act>
    auto pass(const FileCall& call, Act&& act) -> decltype(act()) {
        {
            const std::lock_guard lock(script_->mutex);
            script_->begun.push_back(call);
        }
        if (script_->before)
            if (Status refused = script_->before(call); !refused) return refused;
        auto outcome = act();
        if (outcome && script_->after) script_->after(call);
        return outcome;
    }

    const std::shared_ptr<Script> script_;
};

// Wraps the file in a script that calls this function before each call.
[[nodiscard]] inline std::unique_ptr<io::File> scripted(std::shared_ptr<io::File> file,
                                                        std::function<Status(const FileCall&)> before) {
    auto script = std::make_shared<Script>();
    script->before = std::move(before);
    return std::make_unique<ScriptedFile>(std::move(file), std::move(script));
}

}   // namespace forebay::test
