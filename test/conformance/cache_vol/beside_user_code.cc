// The headers of Cache VOL beside code of a program that uses the same words for its own things, in C++.
#define H5LS_NO_SHORT_NAMES
#include <H5VLcache_ext.h>
#include <cache_new_h5api.h>

#include <cstring>

namespace {

enum class Access { kRead };
enum { READ = 17, WRITE, RDWR, SOFT, HARD, FIFO, LIFO, LRU, LFU, PERMANENT, TEMPORAL };
int FILE_CLOSE() { return READ; }

}   // namespace

int main() {
    cache_storage_t* const storage = H5LScreate(H5P_DEFAULT);
    if (storage == nullptr || FILE_CLOSE() != 17 || static_cast<int>(H5LS_READ) != 0) return 1;
    if (H5LSset(storage, "MEMORY", nullptr, 1000, H5LS_FIFO) < 0) return 1;
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    bool on = true, got = false;
    if (H5Pset_fapl_cache(list, "HDF5_CACHE_WR", &on) < 0 || H5Pset_fapl_cache(list, "HDF5_CACHE_RD", true) < 0)
        return 1;
    if (H5Pget_fapl_cache(list, "HDF5_CACHE_WR", &got) < 0 || !got) return 1;
    if (H5Pset_fapl_cache(list, "LOCAL_STORAGE", storage) < 0) return 1;
    cache_storage_t* same = nullptr;
    if (H5Pget_fapl_cache(list, "LOCAL_STORAGE", &same) < 0 || same != storage) return 1;
    H5Pclose(list);
    static_cast<void>(Access::kRead);
    return H5LSclose(storage) < 0 ? 1 : 0;
}
