#include "hdf5/warning.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/background_thread.h"
#include "base/text_set.h"

namespace forebay::hdf5 {

void warn_once(std::string_view message) noexcept {
    try {
        static constinit TextSet said;
        if (!said.add(message)) return;
        std::string line = "forebay: ";
        line.append(message).append("\n");
        const OwnWrite own;
        while (::write(STDERR_FILENO, line.data(), line.size()) < 0 && errno == EINTR) {
        }
    } catch (...) {   // no memory for the warning, so it is dropped
    }
}

}   // namespace forebay::hdf5
