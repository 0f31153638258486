// The drop-in for Async VOL. Its connector string `under_vol=0;under_info={}` is one of forebay's own.
#include "hdf5/identity.h"

namespace forebay::hdf5 {

const Identity& identity() noexcept {
    static constexpr Identity kAsync{"async", 512};
    return kAsync;
}

TextMeaning read_text(const std::string& text) {
    TextMeaning meaning;
    meaning.loaded = load_options(text, look_up_variable, forebay_variables());
    meaning.fails_in_event_set = true;
    return meaning;
}

std::string text_of_list(hid_t, const std::string& connector_text) { return connector_text; }

bool prefetches_at_open() { return false; }
bool closes_at_once() { return false; }

}   // namespace forebay::hdf5
