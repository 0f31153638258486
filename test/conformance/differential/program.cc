#include "program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "selection.h"

namespace differential {
namespace {

constexpr std::size_t kHeldMax = 6;

struct Table {
    std::vector<Operation> operations;
    std::uint64_t weight = 0;
};

const Table& table() {
    static const Table built = [] {
        Table result;
        for (const auto& part :
             {file_operations(), dataset_operations(), chunk_operations(), group_operations(), attribute_operations()})
            result.operations.insert(result.operations.end(), part.begin(), part.end());
        for (const auto& operation : result.operations) result.weight += operation.weight;
        return result;
    }();
    return built;
}

bool below(const std::string& path, const std::string& parent) {
    return path == parent || (path.starts_with(parent) && (parent.ends_with('/') || path[parent.size()] == '/'));
}

}   // namespace

Program::Program(const ProgramOptions& options, Journal& journal) : options_(options), journal_(journal) {
    Random random(options.seed);
    for (const char* stem : {"a", "b", "c"}) {
        FileState& file = files_.emplace_back();
        file.stem = stem;
        file.driver = random_driver(random);
        file.name = file_name(stem, file.driver);
        file.groups = {"/"};
    }
    heavy_ = random.chance(options.heavy_percent);
    elements_max_ = heavy_ ? 1'500'000 : random.pick<std::size_t>({60, 600, 600, 6000, 6000, 60000});
}

Program::~Program() = default;

Handle* Program::some_handle(Random& random, bool writable) {
    if (handles_.empty()) return nullptr;
    const std::size_t first = random.below(handles_.size());
    if (!writable || random.chance(4)) return &handles_[first];
    for (std::size_t i = 0; i < handles_.size(); ++i) {
        auto& handle = handles_[(first + i) % handles_.size()];
        if (handle.writable) return &handle;
    }
    return &handles_[first];
}

HeldDataset* Program::some_dataset(Random& random, bool writable) {
    if (!held_.empty() && random.chance(45)) {
        auto& dataset = random.pick(held_);
        journal_.note("held:" + files_[dataset.file].name + ":" + dataset.path);
        return &dataset;
    }
    Handle* handle = some_handle(random, writable);
    if (handle == nullptr || file_of(*handle).datasets.empty()) return nullptr;
    borrowed_ = HeldDataset{};
    borrowed_.file = handle->file;
    borrowed_.writable = handle->writable;
    const auto& known = file_of(*handle).datasets;
    borrowed_.path = random.chance(40) ? known.back() : random.pick(known);
    borrowed_.element = element_of(borrowed_.path);
    std::string text = file_of(*handle).name + ":" + borrowed_.path;
    const Id access = random_dataset_access(random, text);
    journal_.note(text);
    borrowed_.id = Id(H5Dopen2(handle->id.get(), borrowed_.path.c_str(), access.get()));
    return journal_.call("open", borrowed_.id.get()) ? &borrowed_ : nullptr;
}

void Program::done_with(HeldDataset* dataset, Random& random) {
    const bool hold = random.chance(dataset == &borrowed_ ? 25 : 75);
    if (dataset == &borrowed_) {
        if (hold && held_.size() < kHeldMax) held_.push_back(std::move(borrowed_));
        else journal_.call("close", borrowed_.id.close());
    } else if (!hold) {
        journal_.call("close", dataset->id.close());
        held_.erase(held_.begin() + (dataset - held_.data()));
    }
}

std::string Program::new_path(FileState& file, char kind, Element element, Random& random) {
    std::string path = random.pick(file.groups);
    if (!path.ends_with('/')) path += '/';
    if (random.chance(8)) path += "between" + std::to_string(random.below(3)) + "/";
    path += kind + std::to_string(random.chance(95) ? 100 + operation_ * 10 + names_++ % 10 : random.below(3));
    return path + "_" + std::to_string(static_cast<int>(element));
}

Element Program::element_of(const std::string& name) {
    const auto at = name.rfind('_');
    const int number = at == std::string::npos ? 2 : std::atoi(name.c_str() + at + 1);
    return number >= 0 && number < static_cast<int>(Element::kCount) ? static_cast<Element>(number) : Element::kInt32;
}

void Program::forget(FileState& file, const std::string& path) {
    for (auto* list : {&file.groups, &file.datasets, &file.types})
        std::erase_if(*list, [&](const std::string& known) { return known != "/" && below(known, path); });
}

void Program::learn_copy(FileState& from, const std::string& source, FileState& to, const std::string& target) {
    for (auto list : {&FileState::groups, &FileState::datasets, &FileState::types}) {
        std::vector<std::string> found;
        for (const auto& known : from.*list)
            if (known != "/" && below(known, source)) found.push_back(target + known.substr(source.size()));
        (to.*list).insert((to.*list).end(), found.begin(), found.end());
    }
}

void Program::close_datasets(std::size_t file) {
    for (std::size_t i = held_.size(); i-- > 0;)
        if (held_[i].file == file) {
            journal_.call("close-dataset", held_[i].id.close());
            held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
        }
}

void Program::close_file(std::size_t file) {
    close_datasets(file);
    for (std::size_t i = handles_.size(); i-- > 0;)
        if (handles_[i].file == file) {
            journal_.call("close-file", handles_[i].id.close());
            handles_.erase(handles_.begin() + static_cast<std::ptrdiff_t>(i));
        }
}

bool Program::strikes(Fault fault) {
    if (struck_ || fault != options_.fault || operation_ < options_.fault_at) return false;
    return struck_ = true;
}

bool Program::write(hid_t dataset, Element element, const Transfer& transfer, Random& random, hid_t list) {
    Values values(element, transfer.buffer_elements, random, dataset, files_.front().datasets);
    const bool damage = is_number(element) && !values.bytes().empty() && strikes(Fault::kValue);
    if (damage)
        for (auto& byte : values.bytes()) byte ^= std::byte{1};
    if (strikes(Fault::kLostWrite)) return journal_.call("write", 0);
    const Id type = memory_type(element);
    return journal_.call("write",
                         H5Dwrite(dataset, type.get(), transfer.memory(), transfer.file(), list, values.data()));
}

bool Program::read(hid_t dataset, Element element, const Transfer& transfer, hid_t list) {
    ReadBuffer buffer(element, transfer.buffer_elements);
    const Id type = memory_type(element);
    const bool done = journal_.call("read", H5Dread(dataset, type.get(), transfer.memory(), transfer.file(), list,
                                                    buffer.data()));
    if (done) journal_.digest("data", buffer.digest() ^ (strikes(Fault::kRead) ? 1 : 0));
    return done;
}

void Program::run_operation(std::uint64_t index) {
    Random random(options_.seed, index + 1);
    operation_ = index;
    if (strikes(Fault::kCrash)) std::abort();
    if (strikes(Fault::kHang)) ::sleep(3600);
    if (index == 0) {
        journal_.begin_operation(index, "create_file");
        create_file(*this, random);
    } else if (handles_.empty() && random.chance(60)) {   // with nothing open, nothing happens
        journal_.begin_operation(index, "open_or_create");
        (random.chance(70) ? open_file : create_file)(*this, random);
    } else {
        std::uint64_t choice = random.below(table().weight);
        const Operation* operation = table().operations.data();
        while (choice >= operation->weight) choice -= (operation++)->weight;
        journal_.begin_operation(index, operation->name);
        operation->run(*this, random);
    }
    if (strikes(Fault::kStatus)) journal_.value("call", -1);
    journal_.end_operation();
}

std::int64_t Program::run() {
    Random random(options_.seed, 0x10FF);
    const std::uint64_t count = std::min(random.between(8, heavy_ ? 40 : 90), options_.operations_max);
    journal_.begin_case(options_.seed);
    for (std::uint64_t index = 0; index < count; ++index)
        if (!options_.skipped.contains(index)) run_operation(index);
    const std::int64_t left = finish();
    journal_.end_case();
    return left;
}

std::int64_t Program::finish() {
    journal_.begin_operation(9999, "finish");
    for (std::size_t file = 0; file < files_.size(); ++file) close_file(file);
    const auto left = H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL);
    journal_.value("left-open", left);
    journal_.end_operation();
    return left;
}

Dims extent_of(hid_t dataset) {
    const Id space(H5Dget_space(dataset));
    const int rank = space.valid() ? H5Sget_simple_extent_ndims(space.get()) : -1;
    Dims dims(rank > 0 ? static_cast<std::size_t>(rank) : 0);
    if (rank > 0) H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
    return dims;
}

}   // namespace differential
