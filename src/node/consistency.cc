// A shared file of several nodes with nodes=consistent: undo journals, and commits in two steps. docs/design.md, "Several nodes,
// consistent after a crash", tells why.
#include <algorithm>
#include <cstring>
#include <span>

#include "node/meeting.h"
#include "node/shared_file.h"

namespace forebay::node {

namespace {

struct Wish {
    std::uint64_t consistent = 0, strict = 0, size = 0;
};

Result<std::vector<Wish>> tell(Team& team, const Wish& mine) {
    const auto all = team.gather(std::as_bytes(std::span(&mine, 1)));
    if (!all) return all.status();
    std::vector<Wish> wishes;
    for (const auto& told : all.value()) {
        if (told.size() != sizeof(Wish)) return Status(Code::kInternal, "another rank runs another forebay");
        std::memcpy(&wishes.emplace_back(), told.data(), sizeof(Wish));
    }
    return wishes;
}

}   // namespace

Result<std::string> SharedFile::begin_consistency(std::uint64_t team, const log::ProcessIdentity& process) {
    const Options& options = engine_->options().options;
    const auto wishes = tell(*team_, {options.nodes == SeveralNodes::kConsistent ? 1u : 0u, options.strict ? 1u : 0u, file_->size()});
    if (!wishes) return wishes.status();
    bool all = true, any = false, strict = false;
    std::uint64_t size = 0;
    for (const Wish& wish : wishes.value()) {
        all = all && wish.consistent != 0;
        any = any || wish.consistent != 0;
        strict = strict || wish.strict != 0;
        size = std::max(size, wish.size);
    }
    if (!any) return std::string();
    Status mine;
    if (!all) mine = {Code::kUnsupported, "the option is not set for every rank"};
    if (mine) {
        const io::Identity& identity = file_->identity();
        const log::UndoHeader header{team, static_cast<std::uint64_t>(team_->rank()), static_cast<std::uint64_t>(team_->size()),
                                     process, identity.device, identity.inode, file_->path()};
        auto file = engine_->directory()->open_file(log::undo_name(file_->log_number()), io::OpenMode::kCreateNew);
        mine = file.status();
        if (mine) {
            auto made = log::UndoJournal::create(std::move(file).value(), header, size, options.size);
            mine = made.status();
            if (mine) journal_ = std::move(made).value();
            else remove_journal();
        }
    }
    if (const Status made = team_->agree(mine); !made) {
        remove_journal();
        const Status why = made.with_context("open " + file_->path() + " with nodes=consistent");
        if (strict) return why;
        return why.message() + "; a crash may leave it torn";
    }
    file_->guard_target([&](std::shared_ptr<io::File> target) {
        return log::make_guarded_file(std::move(target), journal_, [file = std::weak_ptr(file_)](std::uint64_t bytes) {
            if (const auto alive = file.lock()) alive->count_given_up(bytes);
        });
    });
    return std::string();
}

// As far as it was written by anybody. Collective.
Result<std::uint64_t> SharedFile::largest_size() {
    const Meeting meeting(journal_.get());
    const auto wishes = tell(*team_, {0, 0, file_->size()});
    if (!wishes) return wishes.status();
    std::uint64_t size = 0;
    for (const Wish& wish : wishes.value()) size = std::max(size, wish.size);
    return size;
}

// Everything is in the target on all nodes; all say so; all take note that all have said so. A member that dies in between
// leaves what the others, or recovery, need.
Status SharedFile::commit_consistently() {
    FOREBAY_TRY(settle());
    const auto size = largest_size();
    if (!size) return size.status();
    FOREBAY_TRY(agree(journal_->prepare(size.value())));
    return agree(journal_->decide());
}

// Nobody removes what another one may need: first all know that there is nothing to be undone.
Status SharedFile::end_consistency() {
    const Status closed = agree(journal_->close());
    if (closed) remove_journal();
    return closed;
}

void SharedFile::remove_journal() noexcept {
    journal_.reset();
    if (io::Directory* const directory = engine_->directory()) (void)directory->remove_file(log::undo_name(file_->log_number()));
}

}   // namespace forebay::node
