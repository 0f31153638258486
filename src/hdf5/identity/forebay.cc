#include "hdf5/identity.h"

namespace forebay::hdf5 {

const Identity& identity() noexcept {
    // HDF5 reserves 256..511 for connectors that are not (yet) in its registry.
    static constexpr Identity kForebay{"forebay", 482};
    return kForebay;
}

TextMeaning read_text(const std::string& text) {
    TextMeaning meaning;
    meaning.loaded = load_options(text, look_up_variable, forebay_variables());
    return meaning;
}

std::string text_of_list(hid_t, const std::string& connector_text) { return connector_text; }

bool prefetches_at_open() { return false; }
bool closes_at_once() { return false; }

}   // namespace forebay::hdf5
