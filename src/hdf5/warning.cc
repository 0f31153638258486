#include "hdf5/warning.h"

#include <unistd.h>

#include <mutex>
#include <set>
#include <string>

namespace forebay::hdf5 {

void warn_once(std::string_view message) noexcept {
    try {
        // Never destroyed: HDF5 closes files from its own exit handler, after static destructors.
        static auto& mutex = *new std::mutex;
        static auto& said = *new std::set<std::string, std::less<>>;
        {
            const std::lock_guard lock(mutex);
            if (!said.emplace(message).second)
                return;
        }
        std::string line = "forebay: ";
        line.append(message).append("\n");
        [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    } catch (...) {   // no memory for a warning: nothing better can be done
    }
}

}   // namespace forebay::hdf5
