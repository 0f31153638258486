// Paths in commands that a message proposes: a shell reads them as they are.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "base/shell_word.h"

namespace forebay {
namespace {

// The word as a shell reads it.
std::string read_by_shell(const std::string& word) {
    const std::string command = "bash -c \"$(cat <<'END'\nprintf %s " + word + "\nEND\n)\"";
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
    std::string text;
    std::array<char, 256> part;
    while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe.get())) text.append(part.data(), got);
    return text;
}

TEST(ShellWord, leaves_a_plain_path_as_it_is) {
    EXPECT_EQ(shell_word("/scratch/run-1/x_2.h5"), "/scratch/run-1/x_2.h5");
    EXPECT_EQ(shell_word("/daten/übung.h5"), "/daten/übung.h5");
}

TEST(ShellWord, is_the_path_for_a_shell) {
    for (const std::string path : {"/a b", "/it's", "/$HOME`x`", "/a\\b", "/tab\t'\\x", "/esc\x1b[2J", ""}) {
        SCOPED_TRACE(path);
        const std::string word = shell_word(path);
        EXPECT_EQ(read_by_shell(word), path);
        for (const char c : word) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
    }
}

}   // namespace
}   // namespace forebay
