#include "ledger/ledger_writer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "area/process.h"
#include "base/clock.h"

namespace forebay::ledger {

namespace {

constexpr std::size_t kLedgerBytes = sizeof(LedgerHeader) + kLedgerSlots * sizeof(LedgerSlot);

}   // namespace

LedgerWriter::LedgerWriter() : own_header_(std::make_unique<LedgerHeader>()), header_(own_header_.get()) {}

Status LedgerWriter::publish(std::unique_ptr<io::File> file, const area::ProcessIdentity& process,
                             std::uint64_t size_bytes, std::uint64_t segment_bytes) {
    FOREBAY_TRY(file->resize(kLedgerBytes));   // sparse: a slot takes space at its first use
    auto mapping = file->map(0, kLedgerBytes);
    if (!mapping) return mapping.status();
    mapping_ = std::move(mapping).value();
    replaceable_ = std::make_unique<io::Replaceable>(mapping_->bytes());

    auto* const header = new (mapping_->bytes().data()) LedgerHeader;
    slots_ = reinterpret_cast<LedgerSlot*>(mapping_->bytes().data() + sizeof(LedgerHeader));
    header->version = kLedgerVersion;
    header->pid = process.pid;
    header->process_start_ticks = process.start_ticks;
    const std::string boot_id = area::to_text(process.boot_id);
    std::memcpy(header->boot_id, boot_id.data(), std::min(boot_id.size(), sizeof header->boot_id - 1));
    header->slots = kLedgerSlots;
    header->size = size_bytes;
    header->segment = segment_bytes;
    header->files_opened = own_header_->files_opened.load();
    for (std::size_t i = 0; i < kReasonCount; ++i) header->aside[i] = own_header_->aside[i].load();
    header->magic.store(kLedgerMagic, std::memory_order_release);
    header_ = header;
    return Status::ok();
}

LedgerSlot* LedgerWriter::take_slot(std::string_view path, std::uint64_t device, std::uint64_t inode) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; slots_ != nullptr && i < kLedgerSlots; ++i) {
        LedgerSlot& slot = slots_[i];
        if (slot.in_use.load(std::memory_order_relaxed) != 0) continue;
        open_slot(slot, path, device, inode);
        set_use(slot, FileUse::kOpen);
        return &slot;
    }
    header_->files_without_slot.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
}

void LedgerWriter::give_back(LedgerSlot* slot) {
    const std::lock_guard lock(mutex_);
    set_use(*slot, FileUse::kNone);
    io::raise_and_wake(header_->closed);
}

void open_slot(LedgerSlot& slot, std::string_view path, std::uint64_t device, std::uint64_t inode) {
    for (std::atomic<std::uint64_t>* counter :
         {&slot.requests, &slot.staged,   &slot.drained,   &slot.superseded, &slot.through,
          &slot.pending,  &slot.held,     &slot.oldest_ns, &slot.commits,    &slot.target_writes,
          &slot.drain_ns, &slot.stage_ns, &slot.stall_ns,  &slot.close_ns,   &slot.guarantee_given_up,
          &slot.merged,   &slot.stolen,   &slot.syncs,     &slot.error,      &slot.aside})
        counter->store(0, std::memory_order_relaxed);
    slot.opened_ns.store(realtime_ns(), std::memory_order_relaxed);
    slot.device.store(device, std::memory_order_relaxed);
    slot.inode.store(inode, std::memory_order_relaxed);
    const std::size_t length = std::min(path.size(), kLedgerPathMax);
    std::memcpy(slot.path, path.data(), length);
    slot.path_bytes.store(length, std::memory_order_relaxed);
}

}   // namespace forebay::ledger
