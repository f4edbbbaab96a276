/* Loaded before a program (LD_PRELOAD): a disk that misbehaves, and hosts that move, as a file says that CAMPANILE_SHIM names. Each line of
 * it is one of
 *
 *     PART sync|write errno N      calls for files with PART in their path fail
 *     PART sync|write delay MS     they take so much longer
 *     PART sync|write hold 0       they take until the line is gone
 *     host NAME ADDRESS            what a host name stands for
 *
 * Of each name that is looked up a line is added to the file of that name with `.asked` behind it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int said(char *text, size_t room) {
    const char *control = getenv("CAMPANILE_SHIM");
    int file = control ? open(control, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return 0;
    ssize_t count = read(file, text, room - 1);
    close(file);
    text[count > 0 ? count : 0] = 0;
    return count > 0;
}

/* What is said of an operation on a file: 0 if it is to be done, else the error. */
static int verdict(int fd, const char *operation) {
    for (;;) {
        char text[4096], path[PATH_MAX + 1], link[64], *rest = text;
        int holds = 0;
        if (!said(text, sizeof text))
            return 0;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, PATH_MAX);
        if (length <= 0)
            return 0;
        path[length] = 0;
        for (char *line; (line = strsep(&rest, "\n"));) {
            char part[256], on[16], how[16];
            long number;
            if (sscanf(line, "%255s %15s %15s %ld", part, on, how, &number) != 4)
                continue;
            if (!strstr(path, part) || strcmp(on, operation))
                continue;
            if (!strcmp(how, "errno"))
                return (int)number;
            if (!strcmp(how, "delay"))
                usleep((useconds_t)number * 1000);
            holds |= !strcmp(how, "hold");
        }
        if (!holds)
            return 0;
        usleep(5000);
    }
}

#define ASKED(fd, operation)                                                                                                             \
    do {                                                                                                                                   \
        int error = verdict(fd, operation);                                                                                                \
        if (error) {                                                                                                                       \
            errno = error;                                                                                                                 \
            return -1;                                                                                                                     \
        }                                                                                                                                  \
    } while (0)

int fsync(int fd) {
    ASKED(fd, "sync");
    return REAL(fsync)(fd);
}

int fdatasync(int fd) {
    ASKED(fd, "sync");
    return REAL(fdatasync)(fd);
}

ssize_t pwrite64(int fd, const void *octets, size_t count, off64_t at) {
    ASKED(fd, "write");
    return REAL(pwrite64)(fd, octets, count, at);
}

ssize_t pwrite(int fd, const void *octets, size_t count, off_t at) {
    ASKED(fd, "write");
    return REAL(pwrite)(fd, octets, count, at);
}

ssize_t write(int fd, const void *octets, size_t count) {
    ASKED(fd, "write");
    return REAL(write)(fd, octets, count);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    char text[4096], asked[PATH_MAX], *rest = text;
    const char *control = getenv("CAMPANILE_SHIM");
    if (name && control && said(text, sizeof text)) {
        snprintf(asked, sizeof asked, "%s.asked", control);
        int file = open(asked, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (file >= 0) {
            dprintf(file, "%s\n", name);
            close(file);
        }
        for (char *line; (line = strsep(&rest, "\n"));) {
            char of[256], address[64];
            if (sscanf(line, "host %255s %63s", of, address) == 2 && !strcmp(of, name))
                return REAL(getaddrinfo)(address, service, hints, found);
        }
    }
    return REAL(getaddrinfo)(name, service, hints, found);
}
