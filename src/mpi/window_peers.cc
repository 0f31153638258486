#include "mpi/window_peers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "mpi/check.h"

namespace forebay::mpi {

using cache::PeerAnswer;

namespace {

// This many consecutive bytes of the file have one home node: the size of one read-ahead.
constexpr std::uint64_t kHomeBytes = 1 << 20;
// A node's part of the directory has at most this many words, unless pieces are as large as units.
constexpr std::uint64_t kWordsMax = 4 << 20;
constexpr std::size_t kLateMax = 16;          // late questions; at this number no more are asked
constexpr std::uint64_t kTellShare = 8;       // an announcement may take 1/kTellShare of the time to read the file
constexpr std::uint64_t kGetMax = 64 << 20;   // bytes

std::uint64_t stripes_of(std::uint64_t file_bytes) noexcept { return (file_bytes + kHomeBytes - 1) / kHomeBytes; }

bool mpi_runs() noexcept {
    int finalized = 0;
    return MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0;
}

}   // namespace

WindowPeers::WindowPeers(Setup setup) : setup_(std::move(setup)), patience_(setup_.leaders.size()) {
    late_.reserve(kLateMax);
    const std::uint64_t stripes = stripes_of(setup_.file_bytes) / setup_.leaders.size() + 1;
    while (piece_bytes_ < cache::kUnitBytes && stripes * (kHomeBytes / piece_bytes_) > kWordsMax) piece_bytes_ *= 2;
}

// If `end` was not called, the windows and the memory that they expose stay until the process ends.
WindowPeers::~WindowPeers() {
    for (auto& question : late_) (void)question.release();
}

Status WindowPeers::make_window(MPI_Comm communicator, io::MutableBytes memory, MPI_Win& window) {
    FOREBAY_TRY(check(MPI_Win_create(memory.data(), static_cast<MPI_Aint>(memory.size()), 1, MPI_INFO_NULL,
                                     communicator, &window),
                      "MPI_Win_create"));
    FOREBAY_TRY(check(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler"));
    FOREBAY_TRY(check_unified(window));
    return check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window), "MPI_Win_lock_all");
}

Status WindowPeers::make_directory(MPI_Comm communicator) {
    const bool leads = setup_.exposed.replica != nullptr;
    const std::uint64_t words = (stripes_of(setup_.file_bytes) / setup_.leaders.size() + 1) *
                                (kHomeBytes / piece_bytes_);
    const std::uint64_t bytes = leads ? words * sizeof(std::uint32_t) : 0;
    void* memory = nullptr;
    FOREBAY_TRY(check(MPI_Win_allocate(static_cast<MPI_Aint>(bytes), sizeof(std::uint32_t), MPI_INFO_NULL, communicator,
                                       &memory, &directory_),
                      "MPI_Win_allocate"));
    FOREBAY_TRY(check(MPI_Win_set_errhandler(directory_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler"));
    if (bytes > 0) std::memset(memory, 0, bytes);
    communicator_ = communicator;
    FOREBAY_TRY(check(MPI_Win_lock_all(MPI_MODE_NOCHECK, directory_), "MPI_Win_lock_all"));
    return check(MPI_Win_sync(directory_), "MPI_Win_sync");
}

Status WindowPeers::make_maps(MPI_Comm communicator) {
    return make_window(communicator,
                       setup_.exposed.replica != nullptr ? setup_.exposed.replica->map_memory() : io::MutableBytes{},
                       maps_);
}

Status WindowPeers::make_replicas(MPI_Comm communicator) {
    return make_window(communicator,
                       setup_.exposed.bytes != nullptr ? setup_.exposed.bytes->bytes() : io::MutableBytes{}, replicas_);
}

void WindowPeers::end() noexcept {
    ready_ = false;
    left_ = true;
    if (!mpi_runs()) return;
    for (auto& question : late_)
        if (MPI_Waitall(static_cast<int>(question->requests.size()), question->requests.data(), MPI_STATUSES_IGNORE) !=
            MPI_SUCCESS)
            (void)question.release();   // a request may still write there
    late_.clear();
    for (MPI_Win* const window : {&replicas_, &maps_, &directory_}) {
        if (*window == MPI_WIN_NULL) continue;
        (void)MPI_Win_unlock_all(*window);
        (void)MPI_Win_free(window);
        *window = MPI_WIN_NULL;
    }
}

bool WindowPeers::usable() noexcept {
    return ready_ && !broken_ && !left_ && std::this_thread::get_id() == thread_ && mpi_runs();
}

std::uint64_t WindowPeers::first_byte() const noexcept {
    return stripes_of(setup_.file_bytes) * setup_.own / setup_.leaders.size() * kHomeBytes;
}

cache::Peers::Homes WindowPeers::homes() const noexcept {
    return {kHomeBytes, setup_.own, static_cast<Node>(setup_.leaders.size())};
}

bool WindowPeers::issued(int result) noexcept {
    broken_ = broken_ || result != MPI_SUCCESS;
    return result == MPI_SUCCESS;
}

WindowPeers::Wait WindowPeers::await(Question& question, std::uint64_t until_ns) noexcept {
    for (;;) {
        int done = 0;
        if (!issued(MPI_Testall(static_cast<int>(question.requests.size()), question.requests.data(), &done,
                                MPI_STATUSES_IGNORE)))
            return Wait::kBroken;
        if (done != 0) return Wait::kDone;
        if (monotonic_ns() >= until_ns) return Wait::kLate;
    }
}

// The caller has made sure that there is room.
void WindowPeers::abandon(std::unique_ptr<Question> question) noexcept {
    if (late_.size() < late_.capacity()) late_.push_back(std::move(question));
    else (void)question.release();
}

void WindowPeers::help() noexcept {
    if (broken_) return;
    // MPI serves other ranks inside each of its calls that makes progress.
    int found = 0;
    if (communicator_ != MPI_COMM_NULL)
        (void)issued(MPI_Iprobe(MPI_ANY_SOURCE, 0, communicator_, &found, MPI_STATUS_IGNORE));
    for (std::size_t i = late_.size(); i > 0 && !broken_; --i)
        if (await(*late_[i - 1], 0) == Wait::kDone) late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(i - 1));
}

void WindowPeers::leave() noexcept {
    left_ = true;
    communicator_ = MPI_COMM_NULL;
}

std::vector<WindowPeers::Part> WindowPeers::parts_of(ByteRange pieces) const {
    std::vector<Part> parts;
    const std::uint64_t nodes = setup_.leaders.size();
    for (std::uint64_t at = pieces.begin; at < pieces.end;) {
        const std::uint64_t stripe = at / kHomeBytes, end = std::min(pieces.end, (stripe + 1) * kHomeBytes);
        parts.push_back({static_cast<Node>(stripe % nodes),
                         (stripe / nodes * kHomeBytes + at % kHomeBytes) / piece_bytes_,
                         (end - at + piece_bytes_ - 1) / piece_bytes_});
        at = end;
    }
    return parts;
}

PeerAnswer WindowPeers::tell(ByteRange pieces, std::uint64_t cost_ns, std::vector<Run>& before) noexcept {
    PeerAnswer answer = PeerAnswer::kNotAsked;
    const Status told = attempt([&] {
        before.clear();
        const std::vector<Part> parts = parts_of(pieces);
        std::uint64_t bound_ns = late_.size() + 1 >= kLateMax ? 0 : UINT64_MAX;
        for (const Part& part : parts) bound_ns = std::min(bound_ns, patience_[part.home].bound_ns(cost_ns));
        if (bound_ns == 0) return;
        std::vector<std::uint32_t> answers;
        auto question = std::make_unique<Question>();
        const std::uint64_t begin_ns = monotonic_ns();
        answer = ask_directory(std::move(question), parts, begin_ns + bound_ns, answers);
        const std::uint64_t took_ns = monotonic_ns() - begin_ns;
        for (const Part& part : parts) {
            if (answer == PeerAnswer::kYes) patience_[part.home].answered(cost_ns / kTellShare, took_ns);
            else patience_[part.home].late(took_ns);
        }
        if (answer != PeerAnswer::kYes) return;
        for (std::size_t i = 0; i < answers.size(); ++i) {
            const std::uint32_t said = answers[i];
            const Node holder = said == 0 || said > setup_.leaders.size() ? kNobody
                                : said - 1 == setup_.own                  ? kSelf
                                                                          : said - 1;
            const std::uint64_t begin = pieces.begin + i * piece_bytes_;
            const ByteRange piece{begin, std::min(begin + piece_bytes_, pieces.end)};
            if (!before.empty() && before.back().holder == holder) before.back().range.end = piece.end;
            else before.push_back({piece, holder});
        }
    });
    return told ? answer : PeerAnswer::kNotAsked;
}

PeerAnswer WindowPeers::ask_directory(std::unique_ptr<Question> question, const std::vector<Part>& parts,
                                      std::uint64_t until_ns, std::vector<std::uint32_t>& answers) {
    std::uint64_t words = 0;
    for (const Part& part : parts) words += part.words;
    question->told.assign(words, setup_.own + 1);
    question->words.resize(words);
    question->requests.assign(parts.size(), MPI_REQUEST_NULL);
    answers.reserve(words);
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const int count = static_cast<int>(parts[i].words);
        if (!issued(MPI_Rget_accumulate(&question->told[at], count, MPI_UINT32_T, &question->words[at], count,
                                        MPI_UINT32_T, leader(parts[i].home), static_cast<MPI_Aint>(parts[i].first_word),
                                        count, MPI_UINT32_T, MPI_REPLACE, directory_, &question->requests[i])))
            break;
        at += parts[i].words;
    }
    const Wait waited = broken_ ? Wait::kBroken : await(*question, until_ns);
    if (waited == Wait::kDone) {
        answers.assign(question->words.begin(), question->words.end());
        return PeerAnswer::kYes;
    }
    abandon(std::move(question));
    return waited == Wait::kLate ? PeerAnswer::kLate : PeerAnswer::kNotAsked;
}

void WindowPeers::take_back(const Run& run) noexcept {
    if (broken_ || late_.size() + 1 >= kLateMax) return;
    (void)attempt([&] {
        const std::vector<Part> parts = parts_of(run.range);
        std::uint64_t words = 0;
        for (const Part& part : parts) words += part.words;
        auto question = std::make_unique<Question>();
        question->told.assign(words, run.holder == kNobody ? 0 : run.holder + 1);
        question->requests.assign(parts.size(), MPI_REQUEST_NULL);
        std::uint64_t at = 0;
        for (std::size_t i = 0; i < parts.size(); at += parts[i++].words) {
            const int count = static_cast<int>(parts[i].words);
            if (!issued(MPI_Raccumulate(&question->told[at], count, MPI_UINT32_T, leader(parts[i].home),
                                        static_cast<MPI_Aint>(parts[i].first_word), count, MPI_UINT32_T, MPI_REPLACE,
                                        directory_, &question->requests[i])))
                break;
        }
        if (broken_ || await(*question, 0) != Wait::kDone) abandon(std::move(question));
    });
}

PeerAnswer WindowPeers::read(Node holder, ByteRange blocks, io::MutableBytes into, std::uint64_t cost_ns) noexcept {
    PeerAnswer answer = PeerAnswer::kNotAsked;
    const Status done = attempt([&] {
        if (late_.size() + 1 >= kLateMax || broken_ || blocks.empty() || blocks.size() > kGetMax) return;
        cache::PeerPatience& patience = patience_[holder];
        const std::uint64_t bound_ns = patience.bound_ns(cost_ns);
        if (bound_ns == 0) return;
        const std::uint64_t begin_ns = monotonic_ns();
        answer = read_until(holder, blocks, into, {begin_ns + bound_ns, begin_ns + patience.wait_ns(cost_ns)});
        const std::uint64_t took_ns = monotonic_ns() - begin_ns;
        if (answer == PeerAnswer::kYes) patience.answered(cost_ns, took_ns);
        else if (answer == PeerAnswer::kNotThere) patience.waited(took_ns);
        else patience.late(took_ns);
    });
    return done ? answer : PeerAnswer::kNotAsked;
}

// Requests the state of the holder's map and the entries of the units.
void WindowPeers::add_look(Question& question, Node holder) {
    cache::PeerView& view = question.view;
    const auto add = [&](void* to, std::size_t bytes, std::uint64_t offset) {
        const int count = static_cast<int>(bytes);
        if (broken_) return;
        question.requests.push_back(MPI_REQUEST_NULL);
        (void)issued(MPI_Rget(to, count, MPI_BYTE, leader(holder), static_cast<MPI_Aint>(offset), count, MPI_BYTE,
                              maps_, &question.requests.back()));
    };
    question.requests.reserve(question.requests.size() + 2);
    add(&view.state, sizeof view.state, cache::kMapStateOffset);
    add(view.entries.data(), view.entries.size() * sizeof(cache::PeerEntry), cache::entry_offset(view.first_unit()));
}

// Looks until the blocks are there. `question` is null afterwards if it was abandoned.
PeerAnswer WindowPeers::look_until(Node holder, std::unique_ptr<Question>& question, Bounds until) {
    for (;;) {
        question->requests.clear();
        add_look(*question, holder);
        const Wait waited = broken_ ? Wait::kBroken : await(*question, until.answer_ns);
        if (waited != Wait::kDone) {
            abandon(std::move(question));
            return waited == Wait::kLate ? PeerAnswer::kLate : PeerAnswer::kNotAsked;
        }
        if (question->view.state != cache::MapState::kValid) return PeerAnswer::kNotThere;
        if (question->view.all_present()) return PeerAnswer::kYes;
        if (monotonic_ns() >= until.arrival_ns) return PeerAnswer::kNotThere;
    }
}

PeerAnswer WindowPeers::read_until(Node holder, ByteRange blocks, io::MutableBytes into, Bounds until) {
    auto first = std::make_unique<Question>();
    first->view = cache::PeerView(blocks);
    auto second = std::make_unique<Question>();
    second->view = cache::PeerView(blocks);
    auto got = std::make_unique<Question>();
    got->bytes.resize(blocks.size());
    got->words.resize(first->view.blocks());
    got->requests.assign(2, MPI_REQUEST_NULL);
    const PeerAnswer there = look_until(holder, first, until);
    if (there != PeerAnswer::kYes) return there;

    const int count = static_cast<int>(got->bytes.size());
    const int checksums = static_cast<int>(got->words.size() * sizeof(std::uint32_t));
    const std::uint64_t checksums_at = cache::checksums_offset(setup_.file_bytes) +
                                       blocks.begin / cache::kBlockBytes * sizeof(std::uint32_t);
    const bool asked = issued(MPI_Rget(got->bytes.data(), count, MPI_BYTE, leader(holder),
                                       static_cast<MPI_Aint>(blocks.begin), count, MPI_BYTE, replicas_,
                                       &got->requests[0])) &&
                       issued(MPI_Rget(got->words.data(), checksums, MPI_BYTE, leader(holder),
                                       static_cast<MPI_Aint>(checksums_at), checksums, MPI_BYTE, maps_,
                                       &got->requests[1]));
    Wait waited = asked ? await(*got, until.answer_ns) : Wait::kBroken;
    if (waited != Wait::kDone) {
        abandon(std::move(got));
        return waited == Wait::kLate ? PeerAnswer::kLate : PeerAnswer::kNotAsked;
    }
    add_look(*second, holder);
    waited = broken_ ? Wait::kBroken : await(*second, until.answer_ns);
    if (waited != Wait::kDone) {
        abandon(std::move(second));
        return waited == Wait::kLate ? PeerAnswer::kLate : PeerAnswer::kNotAsked;
    }
    if (!second->view.still(first->view) || !cache::fit(got->bytes, got->words)) return PeerAnswer::kNotThere;
    std::copy(got->bytes.begin(), got->bytes.end(), into.begin());
    return PeerAnswer::kYes;
}

}   // namespace forebay::mpi
