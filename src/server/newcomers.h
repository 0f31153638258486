// Clients that no user's process has yet, in a process without rights that a server of root has for them.
//
// Connections come through a channel (io/passed_socket.h). One that comes without a note is asked who it is: its
// IDENTIFY is read, and it goes back through the channel with the user's number as the note. That number decides only
// whose process asks for the proof. One that comes with a note is refused: the note is what the client is told.
// Each has so much time, takes one frame before PROVE of memory, and of all there is one thread; when there are too
// many the oldest goes, which has had the most time.
//
// Ownership: the channel's end is this object's. Thread-safety: one thread. Blocking: `run` until the other end of the
// channel is closed, and who is refused has been told or had that time.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "io/socket.h"
#include "server/session.h"
#include "wire/credentials.h"
#include "wire/frame.h"

namespace forebay::server {

class Newcomers {
  public:
    struct Setup {
        std::shared_ptr<wire::Credentials> credentials{};   // null: nobody is asked
        std::string refusal{};   // what all are told that come without a note; empty: they are asked
        Report report;
        std::size_t most = 256;
        std::chrono::milliseconds identifying{10'000}, refusing{2'000};
    };
    Newcomers(int channel, Setup setup) : channel_(channel), setup_(std::move(setup)) {}
    ~Newcomers();
    Newcomers(const Newcomers&) = delete;
    Newcomers& operator=(const Newcomers&) = delete;

    [[nodiscard]] Status run();

  private:
    using Clock = std::chrono::steady_clock;
    struct Newcomer {
        std::unique_ptr<io::Socket> socket;   // null: it is over
        std::string refusal;                  // empty: it is asked
        Clock::time_point until;
        std::size_t got = 0;   // bytes of the frame that comes
        wire::HeaderBytes header{};
        std::optional<wire::Header> parsed{};
        wire::Payload payload{};
    };
    void take_in();
    void advance(Newcomer& one);
    [[nodiscard]] Result<bool> receive_frame(Newcomer& one) const;
    [[nodiscard]] Status take_frame(Newcomer& one);
    void refuse(Newcomer& one, std::string why) const;
    void let_go(Newcomer& one, const Status& why);

    int channel_;   // -1: the other end is closed
    const Setup setup_;
    std::list<Newcomer> newcomers_;   // the oldest first
    std::size_t displaced_ = 0;       // since there was last nobody
};

}   // namespace forebay::server
