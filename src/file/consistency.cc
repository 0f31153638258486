// Undo journals and two-step commits of several nodes' files with nodes=consistent (docs/design.md, "Several nodes").
#include <algorithm>
#include <cstring>
#include <span>

#include "base/attempt.h"
#include "file/meeting.h"
#include "file/on_several_nodes.h"
#include "recover/gathering.h"

namespace forebay::file {

namespace {

struct Wish {
    std::uint64_t consistent = 0, strict = 0, size = 0;
};

struct Wishes {
    bool all = true, any = false, strict = false;
    std::uint64_t size = 0;
};

Result<Wishes> tell(Team& team, const Wish& mine) {
    const auto told = team.gather(Status::ok(), std::as_bytes(std::span(&mine, 1)));
    if (!told) return told.status();
    Wishes wishes;
    for (std::size_t rank = 0; rank < told.value().size(); ++rank) {
        const auto bytes = told.value()[rank];
        Wish one;
        if (bytes.size() != sizeof one) return Status(Code::kInternal, "another rank runs another forebay");
        std::memcpy(&one, bytes.data(), sizeof one);
        wishes.all = wishes.all && one.consistent != 0;
        wishes.any = wishes.any || one.consistent != 0;
        wishes.strict = wishes.strict || one.strict != 0;
        wishes.size = std::max(wishes.size, one.size);
    }
    return wishes;
}

}   // namespace

Result<std::string> OnSeveralNodes::begin_consistency(const Introduction& first, const area::ProcessIdentity& process) {
    const Options& options = state_.engine->options().options;
    const auto told = tell(*state_.team, {options.nodes == SeveralNodes::kConsistent ? 1u : 0u,
                                          options.strict ? 1u : 0u, state_.file->size()});
    if (!told) return told.status();
    const Wishes& wishes = told.value();
    if (!wishes.any) return std::string();
    const Status begun = state_.team->agree(attempt([&]() -> Status {
        if (!wishes.all) return {Code::kUnsupported, "the option is not set for every rank"};
        return begin_journal(group_of(first), process, wishes.size);
    }));
    if (begun) {
        const Status guarded = state_.team->agree(attempt([&] {
            state_.file->membership().wrap_target([&](std::shared_ptr<io::File> target) {
                return undo::make_guarded_file(std::move(target), journal_,
                                               [file = std::weak_ptr(state_.file)](std::uint64_t bytes) {
                                                   if (const auto alive = file.lock())
                                                       alive->membership().count_given_up(bytes);
                                               });
            });
            return Status::ok();
        }));
        if (guarded) return std::string();
        remove_journal();
        return guarded;
    }
    remove_journal();
    Status why = copy_of(begun, "not consistent");
    (void)attempt([&] { why = begun.with_context("open " + state_.file->path() + " with nodes=consistent"); });
    if (wishes.strict) return why;
    std::string warning = "not consistent";   // short, so it needs no memory
    (void)attempt([&] { warning = why.message() + "; a crash may leave it torn"; });
    return warning;
}

Status OnSeveralNodes::begin_journal(std::uint64_t team, const area::ProcessIdentity& process, std::uint64_t size) {
    const io::Identity& identity = state_.file->identity();
    const undo::UndoHeader header{team,
                                  static_cast<std::uint64_t>(state_.team->rank()),
                                  static_cast<std::uint64_t>(state_.team->size()),
                                  process,
                                  identity.device,
                                  identity.inode,
                                  state_.file->path()};
    FOREBAY_TRY(recover::Gathering::check_length(header.path, team));
    auto file = state_.engine->area().directory()->open_file(undo::undo_name(state_.file->state().name.log_number),
                                                             io::OpenMode::kCreateNew);
    FOREBAY_TRY(file.status());
    auto made = undo::UndoJournal::create(std::move(file).value(), header, size, state_.engine->options().options.size);
    FOREBAY_TRY(made.status());
    journal_ = std::move(made).value();
    return Status::ok();
}

// Collective. Returns the largest size, in bytes, that any member knows.
Result<std::uint64_t> OnSeveralNodes::largest_size() {
    const Meeting meeting(journal_.get());
    const auto wishes = tell(*state_.team, {0, 0, state_.file->size()});
    if (!wishes) return wishes.status();
    return wishes.value().size;
}

// All nodes settle, all members prepare, and all decide. A member that dies leaves its journal to others and recovery.
Status OnSeveralNodes::commit_consistently() {
    FOREBAY_TRY(drain_for_others(Untold::kKeep));
    const auto size = largest_size();
    if (!size) return size.status();
    FOREBAY_TRY(agree(attempt([&] { return journal_->prepare(size.value()); })));
    return agree(attempt([&] { return journal_->decide(); }));
}

// All members close their journals before any removes one, because another member's undo may need it.
Status OnSeveralNodes::end_consistency() {
    const Status closed = agree(attempt([&] { return journal_->close(); }));
    if (closed) remove_journal();
    return closed;
}

void OnSeveralNodes::remove_journal() noexcept {
    journal_.reset();
    if (io::Directory* const directory = state_.engine->area().directory())
        (void)attempt([&] { return directory->remove_file(undo::undo_name(state_.file->state().name.log_number)); });
}

}   // namespace forebay::file
