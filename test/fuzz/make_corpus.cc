// make_corpus FOLDER: staging areas that real logs make, as the fuzzer's first inputs.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "hostile_area.h"
#include "io/memory_file.h"
#include "support/leftover.h"
#include "undo/undo_journal.h"

namespace {

using namespace forebay;
using test::bytes_of;

class Corpus {
  public:
    explicit Corpus(std::filesystem::path folder) : folder_(std::move(folder)) {
        std::filesystem::create_directories(folder_);
    }
    void add(const std::string& name, io::Directory& area) {
        for (const std::uint8_t flags :
             {std::uint8_t{0}, fuzz::kRepair, static_cast<std::uint8_t>(fuzz::kRepair | fuzz::kTwice),
              static_cast<std::uint8_t>(fuzz::kRepair | fuzz::kKilled),
              static_cast<std::uint8_t>(fuzz::kRepair | fuzz::kOtherBoot)}) {
            const std::vector<std::uint8_t> bytes = fuzz::encode(flags, area);
            // Sound logs and journals are not changed by repairing them: the repair knows the format as it is now.
            std::vector<std::uint8_t> as_they_are = bytes;
            as_they_are.front() = 0;
            if (fuzz::encode(0, *fuzz::decode(bytes).area) != fuzz::encode(0, *fuzz::decode(as_they_are).area)) {
                std::fprintf(stderr, "%s: repairing it (flags %d) has changed it\n", name.c_str(), flags);
                good = false;
            }
            std::ofstream file(folder_ / (name + "-" + std::to_string(flags)), std::ios::binary);
            file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
            if (!file.good()) {
                std::fprintf(stderr, "could not write to %s\n", folder_.c_str());
                good = false;
            }
        }
    }
    bool good = true;

  private:
    std::filesystem::path folder_;
};

// Record by record: every kind of them, in one segment and in several.
void add_alone(Corpus& corpus, int segments) {
    const auto area = io::make_memory_directory("/nls/forebay");
    const auto boot_id = area::identify_this_process().value().boot_id;
    {
        test::LeftBehind process(*area, 100, boot_id);
        log::FileLog& log = process.open(1, 9000);
        for (int i = 0; i < segments; ++i) {
            if (i > 0) process.adopt(log, {3, 9000, 1234});
            process.write(log, static_cast<std::uint64_t>(100 * i), bytes_of(300, 1), log::DataClass::kMetadata);
            process.mark(log, log::RecordKind::kTruncate, 4000);
            process.through(log, {100, 200});
            process.commit(log, 5000);
            process.write(log, 4900, bytes_of(50, 2));
        }
        log::FileLog& second = process.open(2, 5000);
        process.write(second, 10, bytes_of(20, 3));
        process.mark(second, log::RecordKind::kClose, 5000);
    }
    corpus.add("alone-" + std::to_string(segments), *area);
}

void add_team(Corpus& corpus) {
    const auto area = io::make_memory_directory("/nls/forebay");
    const auto boot_id = area::identify_this_process().value().boot_id;
    {
        test::LeftBehind first(*area, 100, boot_id), second(*area, 101, boot_id);
        const log::Sharing sharing{log::Sharing::Kind::kOneNode, 9};
        log::FileLog& a = first.open(1, 9000, sharing);
        log::FileLog& b = second.open(1, 9000, sharing);
        first.write(a, 0, bytes_of(200, 1), log::DataClass::kMetadata);
        second.write(b, 100, bytes_of(200, 2));
        first.commit(a, 8000);
        second.write(b, 50, bytes_of(20, 3));
        first.board(9, {first.process, second.process}, {1, 1});
    }
    corpus.add("team", *area);
}

// Two ranks of a file of several nodes, with a commit and something overwritten after it; the second rank may be
// elsewhere.
void add_journals(Corpus& corpus, std::size_t here) {
    const auto area = io::make_memory_directory("/nls/forebay");
    const auto target = io::make_memory_file("run.h5");
    (void)target->write_at(0, bytes_of(9000, 1));
    const auto boot_id = area::identify_this_process().value().boot_id;
    std::vector<std::unique_ptr<undo::UndoJournal>> journals;
    for (std::uint64_t rank = 0; rank < here; ++rank) {
        auto directory = std::move(area->create_directory(std::to_string(100 + rank) + "-5-0")).value();
        auto file = std::move(directory->open_file(undo::undo_name(1), io::OpenMode::kCreateNew)).value();
        const undo::UndoHeader header{9, rank, 2, {100 + rank, 5, boot_id}, 7, 1, "/scratch/run.h5"};
        journals.push_back(std::move(undo::UndoJournal::create(std::move(file), header, 9000, 1 << 20)).value());
    }
    const auto overwrite = [&](undo::UndoJournal& journal, ByteRange range) {
        (void)journal.begin_overwriting(range, *target);
        journal.end_overwriting();
    };
    overwrite(*journals.front(), {100, 300});
    for (const auto& journal : journals) (void)journal->prepare(8000);
    for (const auto& journal : journals) (void)journal->decide();
    overwrite(*journals.front(), {500, 900});
    overwrite(*journals.back(), {4000, 4100});
    (void)journals.front()->prepare(8500);
    corpus.add("journals-" + std::to_string(here), *area);
}

// As an engine leaves it that dies with the file open.
void add_engine(Corpus& corpus, std::uint64_t inode) {
    test::Area area;
    const test::Target target(inode);
    (void)target.open()->write_at(0, bytes_of(9000, 1));
    auto engine = stage::Engine::create(test::small_options(), area.opener());
    const auto file = test::attach(*engine, target);
    (void)file->write(100, bytes_of(500, 2), stage::ByteClass::kMetadata);
    (void)file->truncate(7000);
    (void)file->commit();
    (void)file->write(200, bytes_of(700, 3), stage::ByteClass::kMetadata);
    (void)file->truncate(8000);
    corpus.add("engine-" + std::to_string(inode), *area.shared_open());
    (void)engine->detach(file, true);
}

}   // namespace

int main(int count, char** arguments) {
    if (count != 2) return 2;
    Corpus corpus(arguments[1]);
    for (const int segments : {1, 2, 3}) add_alone(corpus, segments);
    add_team(corpus);
    for (const std::size_t here : {1U, 2U}) add_journals(corpus, here);
    for (const std::uint64_t inode : {1U, 2U}) add_engine(corpus, inode);
    return corpus.good ? 0 : 1;
}
