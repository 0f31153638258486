#include "cli/plugin_probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/launch.h"

namespace forebay::cli {

namespace {

using nlohmann::json;

constexpr unsigned kSecondsMax = 20;
constexpr const char* kSubcommand = "probe-plugin";
constexpr int kPluginTypeVol = 1;        // H5PL_TYPE_VOL
constexpr std::int64_t kDefaultId = 0;   // H5P_DEFAULT, H5E_DEFAULT

std::string loader_message() {
    const char* message = ::dlerror();
    return message != nullptr ? message : "unknown reason";
}

template <class Function>
Function* symbol(void* library, const char* name) {
    return reinterpret_cast<Function*>(::dlsym(library, name));
}

std::string error_stack(void* library) {
    auto* print = symbol<int(std::int64_t, std::FILE*)>(library, "H5Eprint2");
    char* text = nullptr;
    std::size_t size = 0;
    std::FILE* stream = ::open_memstream(&text, &size);
    if (print == nullptr || stream == nullptr) return {};
    print(kDefaultId, stream);
    std::fclose(stream);
    std::string result(text, size);
    std::free(text);
    return result;
}

// How HDF5 2 reports a plugin without a trusted signature (H5PLint.c, H5PLsig.c). No call and no header exposes this.
bool speaks_of_a_signature(std::string_view stack) {
    return stack.find("signature verification failed") != std::string_view::npos ||
           stack.find("not a signed HDF5 plugin") != std::string_view::npos;
}

// Loads the library and lets it register the connector by name, as HDF5_VOL_CONNECTOR does.
void ask_library(const std::string& path, json& answer) {
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
        answer["library_message"] = loader_message();
        return;
    }
    auto* get_version = symbol<int(unsigned*, unsigned*, unsigned*)>(library, "H5get_libversion");
    auto* is_threadsafe = symbol<int(bool*)>(library, "H5is_library_threadsafe");
    auto* set_auto = symbol<int(std::int64_t, void*, void*)>(library, "H5Eset_auto2");
    auto* register_by_name = symbol<std::int64_t(const char*, std::int64_t)>(library, "H5VLregister_connector_by_name");
    unsigned major = 0, minor = 0, release = 0;
    if (get_version == nullptr || get_version(&major, &minor, &release) < 0) {
        answer["library_message"] = path + " is no HDF5 library";
        return;
    }
    answer["library_loads"] = true;
    answer["library_version"] = fmt::format("{}.{}.{}", major, minor, release);
    answer["library_parallel"] = ::dlsym(library, "H5Pset_fapl_mpio") != nullptr;
    bool threadsafe = false;
    if (is_threadsafe != nullptr && is_threadsafe(&threadsafe) >= 0) answer["library_threadsafe"] = threadsafe;
    if (register_by_name == nullptr || set_auto == nullptr) {
        answer["plugin_message"] = "this HDF5 is older than 1.12 and has no connectors";
        return;
    }
    set_auto(kDefaultId, nullptr, nullptr);
    if (register_by_name("forebay", kDefaultId) >= 0) answer["plugin_loads"] = answer["registered"] = true;
    else answer["plugin_message"] = error_stack(library);
    answer["demands_signature"] = speaks_of_a_signature(answer.value("plugin_message", ""));
}

// HDF5 skips a plugin that the dynamic loader refuses. The loader's own message gives the reason.
void ask_loader(const std::string& path, json& answer) {
    void* plugin = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (plugin == nullptr) {
        answer["plugin_message"] = loader_message();
        return;
    }
    auto* get_type = symbol<int()>(plugin, "H5PLget_plugin_type");
    if (get_type == nullptr || get_type() != kPluginTypeVol) {
        answer["plugin_message"] = path + " is no HDF5 connector";
        return;
    }
    // Without a library this is the best test. With one, the library's refusal counts.
    if (!answer["library_loads"].get<bool>()) answer["plugin_loads"] = true;
}

void answer_probe(const std::string& plugin, const std::string& library) {
    ::alarm(kSecondsMax);
    json answer{{"library_loads", false}, {"plugin_loads", false}, {"registered", false}};
    ask_library(library, answer);
    if (!answer["plugin_loads"].get<bool>() && !answer.value("demands_signature", false)) ask_loader(plugin, answer);
    fmt::print("\n{}\n", answer.dump(-1, ' ', false, json::error_handler_t::replace));
    std::fflush(stdout);
    // Skips the exit handlers of both libraries, which do not matter here.
    std::_Exit(kExitFine);
}

class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() { close(); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    void close() {
        if (number_ >= 0) ::close(number_);
        number_ = -1;
    }
    [[nodiscard]] int number() const { return number_; }

  private:
    int number_;
};

struct Output {
    std::string text;
    int wait_status = 0;
};

// Runs this executable as `forebay probe-plugin PLUGIN LIBRARY`, and reads all its standard output.
Result<Output> run_probe(const std::string& plugin, const std::string& library) {
    const Result<std::string> self = own_path();
    if (!self) return self.status();
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Status::from_errno(errno, "create a pipe");
    Descriptor from(ends[0]), to(ends[1]);
    // HDF5 takes an empty connector as none. The library must not load one by itself.
    const std::vector<std::string> environment = environment_with(
        {{"HDF5_PLUGIN_PATH", std::filesystem::path(plugin).parent_path().string()}, {"HDF5_VOL_CONNECTOR", ""}});
    std::vector<std::string> arguments{self.value(), kSubcommand, "--", plugin, library};
    std::vector<char*> argument_pointers, environment_pointers;
    for (std::string& text : arguments) argument_pointers.push_back(text.data());
    for (const std::string& text : environment) environment_pointers.push_back(const_cast<char*>(text.c_str()));
    argument_pointers.push_back(nullptr);
    environment_pointers.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, to.number(), STDOUT_FILENO);
    pid_t child = -1;
    const int error = ::posix_spawn(&child, self.value().c_str(), &actions, nullptr, argument_pointers.data(),
                                    environment_pointers.data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return Status::from_errno(error, "start " + self.value());
    to.close();

    Output output;
    std::array<char, 4096> block;
    for (;;) {
        const ssize_t got = ::read(from.number(), block.data(), block.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        output.text.append(block.data(), static_cast<std::size_t>(got));
    }
    while (::waitpid(child, &output.wait_status, 0) < 0 && errno == EINTR) {
    }
    return output;
}

}   // namespace

Result<PluginProbe> probe_plugin(const std::string& plugin, const std::string& library) {
    const Result<Output> output = run_probe(plugin, library);
    if (!output) return output.status();
    PluginProbe probe;
    probe.library = library;
    if (WIFSIGNALED(output.value().wait_status)) {
        const int number = WTERMSIG(output.value().wait_status);
        probe.plugin_message = number == SIGALRM
                                   ? fmt::format("it did not load within {} seconds", kSecondsMax)
                                   : fmt::format("the process that loaded it ended: {}", ::strsignal(number));
        return probe;
    }
    // The last line is the answer. A library may have printed lines before it.
    std::string text = output.value().text;
    while (text.ends_with('\n')) text.pop_back();
    const std::size_t newline = text.rfind('\n');
    const json answer = json::parse(newline == std::string::npos ? text : text.substr(newline + 1), nullptr, false);
    if (!answer.is_object()) return Status(Code::kInternal, "the process that loads the plugin gave no answer");
    probe.library_loads = answer.value("library_loads", false);
    probe.library_message = answer.value("library_message", "");
    probe.library_version = answer.value("library_version", "");
    probe.library_parallel = answer.value("library_parallel", false);
    probe.library_threadsafe = answer.value("library_threadsafe", false);
    probe.plugin_loads = answer.value("plugin_loads", false);
    probe.registered = answer.value("registered", false);
    probe.plugin_message = answer.value("plugin_message", "");
    probe.demands_signature = answer.value("demands_signature", false);
    return probe;
}

void add_probe(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand(kSubcommand, "Load the plugin and report the result; doctor calls this");
    command->group("");   // internal: no help lists it
    auto plugin = std::make_shared<std::string>();
    auto library = std::make_shared<std::string>();
    command->add_option("PLUGIN", *plugin)->required();
    command->add_option("LIBRARY", *library)->required();
    command->callback([plugin, library, &exit_status] {
        answer_probe(*plugin, *library);
        exit_status = kExitFine;
    });
}

}   // namespace forebay::cli
