#include "hdf5/warning.h"

#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>
#include <string>

#include "base/background_thread.h"
#include "base/immortal.h"

namespace forebay::hdf5 {

void warn_once(std::string_view message) noexcept {
    try {
        static Immortal<std::mutex> mutex;
        static Immortal<std::set<std::string, std::less<>>> said;
        {
            const std::lock_guard lock(*mutex);
            if (!(*said).emplace(message).second) return;
        }
        std::string line = "forebay: ";
        line.append(message).append("\n");
        const OwnWrite own;
        while (::write(STDERR_FILENO, line.data(), line.size()) < 0 && errno == EINTR) {
        }
    } catch (...) {   // no memory for the warning, so it is dropped
    }
}

}   // namespace forebay::hdf5
