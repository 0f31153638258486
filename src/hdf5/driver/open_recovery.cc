#include "hdf5/driver/open_recovery.h"

#include <sys/file.h>

#include <cerrno>
#include <string>

#include "base/attempt.h"
#include "file/recover_collectively.h"
#include "hdf5/warning.h"

namespace forebay::hdf5 {

Status recover_alone(const OpenFile& file, stage::Engine& engine, Locked& locked) {
    constexpr int kTurns = 3;   // with others who look at the file, too
    stage::Leftovers::OpenedFile opened{file.identity, file.path, file.writable, locked != Locked::kNot};
    if (locked == Locked::kForWriting && file.writable) opened.descriptor = file.descriptor;
    bool gave_way = false;
    if (locked == Locked::kForReading) opened.give_way = [&] { gave_way = file.descriptor->lock(LOCK_UN); };
    for (int turn = 1;; ++turn) {
        gave_way = false;
        const Result<std::string> recovered = engine.leftovers().recover_opened(opened);
        if (gave_way && !file.descriptor->lock(LOCK_SH | LOCK_NB)) {
            locked = Locked::kNot;
            return Status::from_errno(errno, "lock " + file.path + " again after its recovery");
        }
        if (!recovered && recovered.status().retryable() && turn < kTurns) continue;
        if (!recovered && (file.writable || !recovered.status().retryable())) return recovered.status();
        const std::string say = recovered ? recovered.value() : recovered.status().message();
        if (!say.empty()) warn_once(say);
        return Status::ok();
    }
}

Status recover_together(file::Team& team, stage::Engine* engine, const char* path, bool writable) {
    const auto looked = file::recover_collectively(team, [&]() -> Result<std::string> {
        return engine != nullptr ? engine->recover_before_open(path, true) : std::string();
    });
    if (!looked) return looked.status();
    (void)attempt([&] {
        if (!looked.value().say.empty()) warn_once(looked.value().say);
    });
    // Readers are refused only what may still change under them.
    const bool refuses = writable || looked.value().mine.sys_errno() == stage::Leftovers::kUnsettled;
    FOREBAY_TRY(team.agree(refuses ? looked.value().mine : Status::ok()));
    if (writable) return Status::ok();
    if (looked.value().first_to_fail) warn_once(looked.value().mine.message());
    return Status::ok();
}

}   // namespace forebay::hdf5
