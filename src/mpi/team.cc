#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "base/attempt.h"
#include "file/mpi_adapter.h"
#include "mpi/calls.h"
#include "mpi/check.h"
#include "mpi/peers.h"

namespace forebay::mpi {

Status check(int result, const char* what) {
    if (result == MPI_SUCCESS) return Status::ok();
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(result, text, &length) != MPI_SUCCESS) length = 0;
    return {Code::kUnavailable, std::string(what) + ": " + std::string(text, static_cast<std::size_t>(length))};
}

Status check_unified(MPI_Win window) {
    int* model = nullptr;
    int known = 0;
    FOREBAY_TRY(check(MPI_Win_get_attr(window, MPI_WIN_MODEL, &model, &known), "MPI_Win_get_attr"));
    if (known != 0 && *model == MPI_WIN_UNIFIED) return Status::ok();
    return {Code::kUnsupported, "MPI's windows are not MPI_WIN_UNIFIED"};
}

namespace {

class CommunicatorWindow final : public file::Window {
  public:
    ~CommunicatorWindow() override {
        int finalized = 0;
        if (window_ == MPI_WIN_NULL || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
        (void)MPI_Win_unlock_all(window_);
        (void)MPI_Win_free(&window_);
    }
    Status create(std::span<std::byte> mine, MPI_Comm communicator) {
        FOREBAY_TRY(check(MPI_Win_create(mine.data(), static_cast<MPI_Aint>(mine.size()), 1, MPI_INFO_NULL,
                                         communicator, &window_),
                          "MPI_Win_create"));
        FOREBAY_TRY(check(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler"));
        FOREBAY_TRY(check_unified(window_));
        return check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
    }
    Status read(int rank, std::size_t offset, std::span<std::byte> into) override {
        const int bytes = static_cast<int>(into.size());
        FOREBAY_TRY(check(MPI_Get(into.data(), bytes, MPI_BYTE, rank, static_cast<MPI_Aint>(offset), bytes, MPI_BYTE,
                                  window_),
                          "MPI_Get"));
        return check(MPI_Win_flush(rank, window_), "MPI_Win_flush");
    }

  private:
    MPI_Win window_ = MPI_WIN_NULL;
};

class CommunicatorTeam final : public file::Team {
  public:
    static Result<std::shared_ptr<file::Team>> make(MPI_Comm communicator) {
        std::shared_ptr<CommunicatorTeam> team;
        Status mine = attempt([&]() -> Status {
            team = std::shared_ptr<CommunicatorTeam>(new CommunicatorTeam);
            FOREBAY_TRY(check(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
            FOREBAY_TRY(check(MPI_Comm_rank(communicator, &team->rank_), "MPI_Comm_rank"));
            FOREBAY_TRY(check(MPI_Comm_size(communicator, &team->size_), "MPI_Comm_size"));
            const auto members = static_cast<std::size_t>(team->size_);
            team->words_.resize(members);
            team->counts_.resize(members);
            team->begins_.resize(members);
            return Status::ok();
        });
        // All ranks have a team, or none.
        const int made = mine ? 1 : 0;
        int all = 0;
        if (const Status told = check(MPI_Allreduce(&made, &all, 1, MPI_INT, MPI_MIN, communicator), "MPI_Allreduce");
            !told || all == 0) {
            (void)MPI_Comm_free(&communicator);
            if (!mine) return mine;
            return told ? out_of_memory() : told;
        }
        team->communicator_ = communicator;
        return std::shared_ptr<file::Team>(std::move(team));
    }
    ~CommunicatorTeam() override {
        int finalized = 0;
        // A program may end MPI before HDF5, and the communicator with it.
        if (communicator_ != MPI_COMM_NULL && MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0)
            (void)MPI_Comm_free(&communicator_);
    }

    [[nodiscard]] int rank() const noexcept override { return rank_; }
    [[nodiscard]] int size() const noexcept override { return size_; }

    Status barrier() override { return check(MPI_Barrier(communicator_), "MPI_Barrier"); }

    Result<std::span<const std::uint64_t>> exchange(std::uint64_t mine) override {
        FOREBAY_TRY(check(MPI_Allgather(&mine, 1, MPI_UINT64_T, words_.data(), 1, MPI_UINT64_T, communicator_),
                          "MPI_Allgather"));
        return std::span<const std::uint64_t>(words_);
    }
    Status broadcast(int from, std::span<std::byte> bytes) override {
        return check(MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, communicator_),
                     "MPI_Bcast");
    }

    Result<std::unique_ptr<file::Window>> expose(std::span<std::byte> mine) override {
        std::unique_ptr<CommunicatorWindow> window;
        // The window's end is collective too, so all ranks have a window, or none.
        FOREBAY_TRY(agree(attempt([&] { window = std::make_unique<CommunicatorWindow>(); })));
        FOREBAY_TRY(agree(attempt([&] { return window->create(mine, communicator_); })));
        return std::unique_ptr<file::Window>(std::move(window));
    }

  protected:
    Status gather_into(std::span<const std::byte> mine, std::span<const std::size_t> ends,
                       std::span<std::byte> all) override {
        int begin = 0;   // the team has checked the total against INT_MAX
        for (std::size_t i = 0; i < ends.size(); begin += counts_[i++]) {
            counts_[i] = static_cast<int>(ends[i]) - begin;
            begins_[i] = begin;
        }
        return check(MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, all.data(), counts_.data(),
                                    begins_.data(), MPI_BYTE, communicator_),
                     "MPI_Allgatherv");
    }

  private:
    CommunicatorTeam() noexcept = default;

    MPI_Comm communicator_ = MPI_COMM_NULL;
    int rank_ = 0, size_ = 1;
    std::vector<std::uint64_t> words_;
    std::vector<int> counts_, begins_;
};

Result<std::shared_ptr<file::Team>> make_team(const void* communicator) {
    MPI_Comm handle;
    std::memcpy(&handle, communicator, sizeof handle);
    return CommunicatorTeam::make(handle);
}

void complete_info(void* info) {
    MPI_Info hints;
    std::memcpy(&hints, info, sizeof hints);
    if (hints == MPI_INFO_NULL && MPI_Info_create(&hints) == MPI_SUCCESS) std::memcpy(info, &hints, sizeof hints);
}

void free_info(void* info) {
    int finalized = 0;
    if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
    MPI_Info hints;
    std::memcpy(&hints, info, sizeof hints);
    if (hints != MPI_INFO_NULL) (void)MPI_Info_free(&hints);
}

class Group {
  public:
    Group() = default;
    ~Group() {
        if (group != MPI_GROUP_NULL) (void)MPI_Group_free(&group);
    }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    MPI_Group group = MPI_GROUP_NULL;
};

Result<file::Membership> members(const void* communicator) {
    MPI_Comm comm;
    std::memcpy(&comm, communicator, sizeof comm);
    int initialized = 0, size = 0, place = 0;
    // A program may use MPI sessions, without MPI_COMM_WORLD.
    if (MPI_Initialized(&initialized) != MPI_SUCCESS || initialized == 0)
        return Status(Code::kUnsupported, "there is no MPI_COMM_WORLD");
    Group some, all;
    FOREBAY_TRY(check(MPI_Comm_group(comm, &some.group), "MPI_Comm_group"));
    FOREBAY_TRY(check(MPI_Comm_group(MPI_COMM_WORLD, &all.group), "MPI_Comm_group"));
    FOREBAY_TRY(check(MPI_Group_size(some.group, &size), "MPI_Group_size"));
    FOREBAY_TRY(check(MPI_Group_rank(some.group, &place), "MPI_Group_rank"));
    std::vector<int> places(static_cast<std::size_t>(size));
    std::iota(places.begin(), places.end(), 0);
    file::Membership found;
    found.ranks.resize(places.size(), -1);
    FOREBAY_TRY(check(MPI_Group_translate_ranks(some.group, size, places.data(), all.group, found.ranks.data()),
                      "MPI_Group_translate_ranks"));
    for (int& rank : found.ranks)
        if (rank == MPI_UNDEFINED) rank = -1;
    if (place >= 0 && place < size) found.own = found.ranks[static_cast<std::size_t>(place)];
    return found;
}

}   // namespace

}   // namespace forebay::mpi

extern "C" __attribute__((visibility("default"))) const forebay::file::MpiAdapter* forebay_mpi_adapter(
    forebay::file::FindMpiFunction find) {
    static constexpr forebay::file::MpiAdapter adapter{
        forebay::file::kMpiAdapterVersion, sizeof(MPI_Comm),        sizeof(MPI_Info),      forebay::mpi::make_team,
        forebay::mpi::complete_info,       forebay::mpi::free_info, forebay::mpi::members, forebay::mpi::join_peers};
    return forebay::mpi::find_calls(find) ? &adapter : nullptr;
}
