// A file that the ranks of one node stage together. A crash leaves the file at its last commit.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "file/grouped.h"

namespace forebay::file {

class OnOneNode final : public Grouped {
  public:
    using Grouped::Grouped;

    [[nodiscard]] Status join(const Node& node) override;
    void collective_write_done() noexcept override;
    Status truncate(std::uint64_t size) override;
    Status commit() override;

  private:
    Status write_parts(std::span<const Part> parts, stage::ByteClass byte_class, bool together) override;
    Status drain_unclosed() override { return state_.file->lifecycle().finish(); }
    std::optional<stage::WaitedClose> why_close_waits() override;
    [[nodiscard]] bool keeps_last_commit() const noexcept override { return true; }
    bool defer(std::optional<stage::WaitedClose>& waits, AfterClose& afterwards) override;
    [[nodiscard]] std::function<Status()> rest_of_close() const;

    bool durable_ = false;
};

}   // namespace forebay::file
