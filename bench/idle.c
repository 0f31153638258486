/* Measures an idle open file. The program writes and flushes, and waits until the process has used no clock tick for
 * two seconds (the log warms up once, a second after its begin). Then it counts clock ticks and voluntary context
 * switches of its threads over the idle time.
 *
 *   idle --file F [--mib 64] [--settle-seconds-max 20] [--idle-seconds 3]
 *   idle --file F --verify [--mib 64]
 *
 * The main thread's own sleep is one switch; the program counts the other threads separately. A thread that ends counts
 * as one. */
#include <dirent.h>
#include <hdf5.h>
#include <unistd.h>

#include "program.h"

enum { kMostThreads = 256, kQuiet_s = 2 };

struct usage {
    uint64_t ticks, threads;
    struct {
        long id;
        uint64_t switches;
    } thread[kMostThreads];
};

static uint64_t voluntary_switches(const char *path) {
    char line[256];
    uint64_t count = 0;
    FILE *status = fopen(path, "r");
    if (status == NULL) return 0; /* the thread has just ended */
    while (fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0) count = strtoull(line + 24, NULL, 10);
    fclose(status);
    return count;
}

static struct usage usage_now(void) {
    struct usage usage = {0};
    char text[4096];
    FILE *stat = fopen("/proc/self/stat", "r");
    if (stat == NULL || fgets(text, sizeof text, stat) == NULL) fail("/proc/self/stat", "cannot be read");
    fclose(stat);
    unsigned long user = 0, system = 0;
    const char *fields = strrchr(text, ')'); /* the name before it may have any characters */
    if (fields == NULL ||
        sscanf(fields + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        fail("/proc/self/stat", "cannot be understood");
    usage.ticks = user + system;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) fail("/proc/self/task", "cannot be read");
    for (struct dirent *task; (task = readdir(tasks)) != NULL && usage.threads < kMostThreads;) {
        if (task->d_name[0] == '.') continue;
        snprintf(text, sizeof text, "/proc/self/task/%s/status", task->d_name);
        usage.thread[usage.threads].id = strtol(task->d_name, NULL, 10);
        usage.thread[usage.threads++].switches = voluntary_switches(text);
    }
    closedir(tasks);
    return usage;
}

/* Returns the switches between the two moments, of the main thread or of all others. */
static uint64_t switches_between(const struct usage *before, const struct usage *after, int of_main) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < before->threads; ++i) {
        if ((before->thread[i].id == (long)getpid()) != of_main) continue;
        uint64_t since = 1; /* it has ended */
        for (uint64_t j = 0; j < after->threads; ++j)
            if (after->thread[j].id == before->thread[i].id)
                since = after->thread[j].switches - before->thread[i].switches;
        count += since;
    }
    return count;
}

static void sleep_s(double seconds) {
    struct timespec rest = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&rest, NULL);
}

/* Waits until kQuiet_s have passed without a clock tick. Returns the duration. */
static double settle(double most_s) {
    double begin_s = now_s();
    uint64_t ticks = usage_now().ticks;
    while (now_s() - begin_s < most_s) {
        sleep_s(kQuiet_s);
        uint64_t now = usage_now().ticks;
        if (now == ticks) break;
        ticks = now;
    }
    return now_s() - begin_s;
}

int main(int argc, char **argv) {
    const char *path = argument(argc, argv, "--file", NULL);
    hsize_t words = count_argument(argc, argv, "--mib", "64") * (1u << 20) / sizeof(uint64_t);
    int verify = flag(argc, argv, "--verify");
    uint64_t *data = malloc(words * sizeof *data);
    herr_t done;
    if (path == NULL) fail("--file", "is needed");
    if (data == NULL) fail("data", "out of memory");
    hid_t file = verify ? H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT)
                        : H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    if (file < 0) fail(path, "cannot be opened");
    if (verify) {
        hid_t dataset = H5Dopen2(file, "data", H5P_DEFAULT);
        done = H5Dread(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
        if (done < 0) fail(path, "cannot be read");
        for (hsize_t i = 0; i < words; ++i)
            if (data[i] != word_at(3, i)) {
                fprintf(stderr, "%s: wrong data\n", path);
                return kExitWrongData;
            }
        H5Dclose(dataset);
        H5Fclose(file);
        printf("{\"verified\": true}\n");
        return 0;
    }
    for (hsize_t i = 0; i < words; ++i) data[i] = word_at(3, i);
    hid_t space = H5Screate_simple(1, &words, NULL);
    hid_t dataset = H5Dcreate2(file, "data", H5T_NATIVE_UINT64, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    done = H5Dwrite(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    if (done < 0 || H5Fflush(file, H5F_SCOPE_GLOBAL) < 0) fail(path, "cannot be written");
    double settled_s = settle(seconds_argument(argc, argv, "--settle-seconds-max", "20"));
    struct usage before = usage_now();
    sleep_s(seconds_argument(argc, argv, "--idle-seconds", "3"));
    struct usage after = usage_now();
    H5Dclose(dataset);
    H5Sclose(space);
    if (H5Fclose(file) < 0) fail(path, "cannot be closed");
    printf("{\"bytes\": %llu, \"settled_s\": %.3f, \"ticks\": %llu, \"threads\": %llu, \"main_switches\": %llu, "
           "\"other_switches\": %llu}\n",
           (unsigned long long)(words * sizeof *data), settled_s, (unsigned long long)(after.ticks - before.ticks),
           (unsigned long long)after.threads, (unsigned long long)switches_between(&before, &after, 1),
           (unsigned long long)switches_between(&before, &after, 0));
    free(data);
    return 0;
}
