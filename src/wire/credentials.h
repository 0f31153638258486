// Who a process on another machine is: credentials that an authority of all machines makes and reads.
//
// A credential carries a secret to one user: only processes of that user can read it, and they learn which user has
// made it. Nobody can read one twice. Source: munge(7), munge_encode(3), munge_decode(3).
// Thread-safety: all calls from any thread. Blocking: on the authority's daemon of this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/file.h"
#include "wire/frame.h"

namespace forebay::wire {

class Credentials {
  public:
    struct Content {
        std::uint32_t user = 0;   // whose process has made it
        Payload secret;
    };
    virtual ~Credentials() = default;
    // kUnavailable: the authority does not answer.
    [[nodiscard]] virtual Result<std::string> make(io::Bytes secret, std::uint32_t reader) = 0;
    // kPermissionDenied: it is not one, not for this user, too old, or was read before.
    [[nodiscard]] virtual Result<Content> read(const std::string& credential) = 0;
};

// MUNGE, whose library is loaded when the first caller asks. kUnavailable: this machine does not have it.
[[nodiscard]] Result<std::shared_ptr<Credentials>> munge_credentials();

}   // namespace forebay::wire
