// The end of a process that has a shared file open still, when nobody may call MPI any more.
#include <chrono>

#include "base/attempt.h"
#include "node/shared_file.h"

namespace forebay::node {

namespace {

// The ranks of a program end together. One that goes on for longer does something else; what it has staged stays in its
// log.
constexpr std::chrono::seconds kOthersMax{30};

}   // namespace

void SharedFile::finish_unclosed() noexcept {
    if (engine_->inherited()) return;
    if (!attached_ || share_ == nullptr) return claim_.reset();   // nothing is staged
    const Status outcome = attempt([&]() -> Status {
        if (journal_ != nullptr)
            return {Code::kUnavailable, "with nodes=consistent it stays as it is, "
                                        "to be taken back to its last flush once recovery has run on every node"};
        return drains_ ? drain_unclosed() : follow_unclosed();
    });
    if (!outcome) file_->withhold(copy_of(outcome, "a write failed"));
    claim_.reset();
}

Status SharedFile::follow_unclosed() {
    share_->come_to_end(NodeShare::End::kWritten);
    const Status finished = share_->wait_until_finished(kOthersMax);
    FOREBAY_TRY(file_->finish_followed(finished));
    share_->come_to_end(NodeShare::End::kGivenBack);
    return Status::ok();
}

Status SharedFile::drain_unclosed() {
    if (const Status ended = share_->await_ends(NodeShare::End::kWritten, kOthersMax); !ended) {
        (void)attempt([&] { return file_->drain(); });   // what there is now; the logs stay
        return ended;
    }
    share_->stop_listening();
    if (several_nodes_) {
        // Other nodes may have made the file longer: its size is what they all have written.
        FOREBAY_TRY(file_->drain());
        FOREBAY_TRY(file_->finish_followed(Status::ok()));
    } else {
        FOREBAY_TRY(file_->finish());
    }
    share_->finished();
    // The board goes last: without it recovery could not tell what the others' logs mean.
    if (share_->await_ends(NodeShare::End::kGivenBack, kOthersMax)) remove_board(file_->log_number());
    return Status::ok();
}

}   // namespace forebay::node
