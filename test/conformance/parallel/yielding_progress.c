/* Preloaded into MPI programs that have more ranks than the machine has processors: a rank that waits gives its
 * processor to the one it waits for.
 *
 * MPICH waits by polling, and a polling rank keeps its processor until the kernel takes it away. With 4 ranks on 2
 * processors that costs some milliseconds per message. Here the poll of MPICH's transport, UCX, yields when it has
 * found nothing. With another transport the library does nothing. */
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>

__attribute__((visibility("default"))) unsigned ucp_worker_progress(void* worker) {
    static unsigned (*progress)(void*);
    if (progress == NULL) *(void**)&progress = dlsym(RTLD_NEXT, "ucp_worker_progress");
    if (progress == NULL) {
        /* An interpreter's modules bring the transport for themselves alone: the next one is not in sight. */
        void* const transport = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
        if (transport != NULL) *(void**)&progress = dlsym(transport, "ucp_worker_progress");
    }
    if (progress == NULL) abort(); /* then nobody but this library can have called */
    const unsigned events = progress(worker);
    if (events == 0) (void)sched_yield();
    return events;
}
