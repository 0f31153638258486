#include "wire/commit_stream.h"

#include <utility>

namespace forebay::wire {

Result<CommitStream> CommitStream::open(const io::Address& server, const std::string& path,
                                        const io::Identity& identity, std::uint64_t patience_s) {
    FOREBAY_TRY(check_path(path));
    auto session = open_session(server, patience_s, {false, false, identity, path, Purpose::kFollow, {}});
    if (!session) return session.status();
    return CommitStream(std::move(session.value().connection));
}

Result<std::optional<Commits>> CommitStream::next(int wake) {
    if (!asked_) FOREBAY_TRY(connection_->send(Type::kNext, ++requests_, encode_number(last_)));
    asked_ = true;
    const auto input = connection_->socket().await_input(wake);
    if (!input) return input.status();
    if (!input.value()) return std::optional<Commits>();
    asked_ = false;
    auto commits = parse_answer();
    if (!commits) return commits.status();
    if (!commits.value().commits.empty()) last_ = commits.value().commits.back().number;
    return std::optional<Commits>(std::move(commits).value());
}

Result<Commits> CommitStream::parse_answer() {
    const auto frame = connection_->receive();
    if (!frame) return frame.status();
    const Header& header = frame.value().header;
    if (header.request != requests_) return Status(Code::kCorrupt, "it answers out of turn");
    if (header.type == Type::kFailed) return parse_failed(frame.value().payload);
    if (header.type != Type::kCommits) return Status(Code::kCorrupt, "its answer is of another kind");
    return parse_commits(frame.value().payload);
}

}   // namespace forebay::wire
