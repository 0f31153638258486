// Whether this process is a fork of another one's image.
#pragma once

namespace forebay::io {

// It was forked, and has executed no program since: its end may come without handlers of exit. True as well if the
// system does not tell. Reads /proc.
[[nodiscard]] bool is_forked() noexcept;

}   // namespace forebay::io
