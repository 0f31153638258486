// A set of texts that only grows, without a lock: a child that another thread forks in the midst of a call can use it.
// For few texts, since a call compares its text with each. Ownership: the set keeps all texts for ever, so it is for
// static variables. Thread-safety: any thread. No call blocks.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

namespace forebay {

class TextSet {
  public:
    constexpr TextSet() = default;
    TextSet(const TextSet&) = delete;
    TextSet& operator=(const TextSet&) = delete;

    // Returns true if the set did not have the text. If several threads add it, one of them gets true. Throws
    // std::bad_alloc; then the set is unchanged.
    bool add(std::string_view text) {
        std::unique_ptr<Entry> made;
        const Entry* latest = latest_.load(std::memory_order_acquire);
        for (const Entry* compared = nullptr;;) {
            for (const Entry* each = latest; each != compared; each = each->earlier)
                if (each->text == text) return false;
            compared = latest;
            if (made == nullptr) made.reset(new Entry{std::string(text)});
            made->earlier = latest;
            if (latest_.compare_exchange_weak(latest, made.get(), std::memory_order_acq_rel)) break;
        }
        (void)made.release();
        return true;
    }

  private:
    struct Entry {
        const std::string text;
        const Entry* earlier = nullptr;
    };

    std::atomic<const Entry*> latest_{nullptr};
};

}   // namespace forebay
