#include "torture/cutting_proxy.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/exit_status.h"
#include "io/socket.h"
#include "torture/server_client.h"
#include "torture/told.h"

namespace forebay::torture {

namespace {

constexpr int kBacklog = 64;

class Stream {
  public:
    Stream(int from, int to) noexcept : from_(from), to_(to) {}
    // The events to poll for: reads while the buffer is empty, writes otherwise.
    [[nodiscard]] pollfd wanted() const noexcept {
        if (ended_) return {-1, 0, 0};
        return begin_ == end_ ? pollfd{from_, POLLIN, 0} : pollfd{to_, POLLOUT, 0};
    }
    [[nodiscard]] bool move() noexcept {
        if (begin_ == end_) {
            const ssize_t got = ::recv(from_, bytes_.data(), bytes_.size(), MSG_DONTWAIT);
            if (got < 0) return errno == EAGAIN || errno == EINTR;
            begin_ = 0;
            end_ = static_cast<std::size_t>(got);
            if (got > 0) return true;
            ended_ = true;
            ::shutdown(to_, SHUT_WR);
            return true;
        }
        const ssize_t sent = ::send(to_, bytes_.data() + begin_, end_ - begin_, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0) return errno == EAGAIN || errno == EINTR;
        begin_ += static_cast<std::size_t>(sent);
        return true;
    }
    [[nodiscard]] bool ended() const noexcept { return ended_; }

  private:
    const int from_, to_;
    bool ended_ = false;
    std::size_t begin_ = 0, end_ = 0;
    std::array<char, 65536> bytes_;
};

// Sets if a close of the socket resets the connection.
void reset_at_end(const io::Socket& socket, bool resets) noexcept {
    const linger at_once{resets ? 1 : 0, 0};
    (void)::setsockopt(socket.number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

class Passage {
  public:
    Passage(std::unique_ptr<io::Socket> client, std::unique_ptr<io::Socket> server)
        : client_(std::move(client)),
          server_(std::move(server)),
          streams_{Stream(client_->number(), server_->number()), Stream(server_->number(), client_->number())} {
        reset_at_end(*client_, true);
        reset_at_end(*server_, true);
    }
    // Both sides have closed the connection. Their last bytes still arrive.
    void end_well() noexcept {
        reset_at_end(*client_, false);
        reset_at_end(*server_, false);
    }
    Passage(const Passage&) = delete;
    Passage& operator=(const Passage&) = delete;

    [[nodiscard]] std::array<Stream, 2>& streams() noexcept { return streams_; }

  private:
    std::unique_ptr<io::Socket> client_, server_;
    std::array<Stream, 2> streams_;
};

struct Door {
    int number = -1;
    std::uint16_t port = 0;
};
Result<Door> open_door() {
    Door door{.number = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (door.number < 0 || ::bind(door.number, any, length) != 0 || ::listen(door.number, kBacklog) != 0 ||
        ::getsockname(door.number, any, &length) != 0)
        return Status::from_errno(errno, "listen on the loopback interface");
    door.port = ntohs(address.sin_port);
    return door;
}

void accept_all(int door, const io::Address& server, std::list<Passage>& passages) {
    for (;;) {
        const int number = ::accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
        if (number < 0) return;
        auto client = std::make_unique<io::Socket>(number);
        auto connected = io::Socket::connect(server);
        if (!connected) continue;
        passages.emplace_back(std::move(client), std::move(connected).value());
    }
}

void cut_all(std::list<Passage>& passages) {
    const std::string each(passages.size(), kCutLetter);
    passages.clear();
    (void)tell(each);
}

Status pass_on(const Door& door, const io::Address& server, int signals) {
    std::list<Passage> passages;
    for (;;) {
        std::vector<pollfd> wanted{{signals, POLLIN, 0}, {door.number, POLLIN, 0}};
        for (Passage& passage : passages)
            for (const Stream& stream : passage.streams()) wanted.push_back(stream.wanted());
        if (::poll(wanted.data(), wanted.size(), -1) < 0 && errno != EINTR)
            return Status::from_errno(errno, "wait for connections");
        std::size_t at = 2;
        for (auto passage = passages.begin(); passage != passages.end();) {
            bool lives = true;
            for (Stream& stream : passage->streams())
                if (wanted[at++].revents != 0) lives = stream.move() && lives;
            const auto& streams = passage->streams();
            const bool ended = lives && streams[0].ended() && streams[1].ended();
            if (ended) passage->end_well();
            if (!lives || ended) passage = passages.erase(passage);
            else ++passage;
        }
        if (wanted[1].revents != 0) accept_all(door.number, server, passages);
        signalfd_siginfo info{};
        if (wanted[0].revents != 0 && ::read(signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
            cut_all(passages);
    }
}

Status live_proxy(const std::string& server) {
    FOREBAY_TRY(end_with_parent());
    const auto address = io::parse_address(server);
    if (!address) return address.status();
    sigset_t cut;
    ::sigemptyset(&cut);
    ::sigaddset(&cut, SIGUSR1);
    if (::sigprocmask(SIG_BLOCK, &cut, nullptr) != 0) return Status::from_errno(errno, "block a signal");
    const int signals = ::signalfd(-1, &cut, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) return Status::from_errno(errno, "create a signal descriptor");
    const auto door = open_door();
    if (!door) return door.status();
    (void)tell(fmt::format("{}\n", door.value().port));
    return pass_on(door.value(), address.value(), signals);
}

}   // namespace

void add_cutting_proxy(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand(kProxyCommand, "Forward connections, and cut them; torture calls this");
    command->group("");
    auto server = std::make_shared<std::string>();
    command->add_option("--server", *server)->required();
    command->callback([server, &exit_status] {
        fmt::print(stderr, "{}\n", live_proxy(*server).message());
        exit_status = cli::kExitProblem;
    });
}

}   // namespace forebay::torture
