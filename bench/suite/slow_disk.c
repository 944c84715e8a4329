/* Delays fsync and fdatasync of the process into which this library is preloaded, like a slow disk.

   The variable LEDGERMQ_SLOW_DISK names a directory. The library makes a file there whose name is the pid of the
   process, with two numbers of 64 bits, and maps it:

     0   the delay in microseconds; another process may change it at any time
     8   the number of finished fsyncs

   Without the variable, or if the file cannot be made, nothing is delayed. slow_disk.py writes and reads the file. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef int (*sync_call)(int);

struct figures {
    uint64_t delay_us;
    uint64_t syncs;
};

static struct figures unmapped;
static struct figures *figures = &unmapped;

__attribute__((constructor)) static void map_figures(void)
{
    const char *directory = getenv("LEDGERMQ_SLOW_DISK");
    char path[4096];
    if (directory == NULL)
        return;
    int length = snprintf(path, sizeof path, "%s/%d", directory, (int)getpid());
    if (length < 0 || (size_t)length >= sizeof path)
        return;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    if (ftruncate(file, sizeof *figures) == 0) {
        void *mapped = mmap(NULL, sizeof *figures, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED)
            figures = mapped;
    }
    close(file);
}

/* Sync first, and then wait: until the delay is over, the caller does not know that the bytes are on the disk. */
static int delayed(sync_call call, int file)
{
    int result = call(file);
    int error = errno;
    uint64_t delay_us = __atomic_load_n(&figures->delay_us, __ATOMIC_RELAXED);
    struct timespec left = {(time_t)(delay_us / 1000000), (long)(delay_us % 1000000) * 1000};
    while (delay_us != 0 && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    __atomic_add_fetch(&figures->syncs, 1, __ATOMIC_RELAXED);
    errno = error;
    return result;
}

int fsync(int file)
{
    return delayed((sync_call)dlsym(RTLD_NEXT, "fsync"), file);
}

int fdatasync(int file)
{
    return delayed((sync_call)dlsym(RTLD_NEXT, "fdatasync"), file);
}
