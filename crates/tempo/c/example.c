/* tempo.h with UDP sockets of POSIX: a publisher of lines, or a subscriber that prints what comes.
 *
 *     example pub TOPIC udp://HOST:PORT [COUNT]     sends each line that it reads (or COUNT numbers, down to 1), and says bye
 *     example sub TOPIC udp://HOST:PORT [COUNT]     prints messages, a line for each, until there were COUNT (or for ever)
 *
 * HOST:PORT is a peer, a broker (udp://HOST:PORT/7: its channel 7), or a multicast group. With `*` for HOST it has no channel, and waits at
 * PORT, which may be 0, for those that have one; it tells the port. A publisher waits for a subscriber before it sends. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE /* group membership */
#include "tempo.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct program {
    struct tempo_endpoint end_point;
    struct tempo_driver driver;
    int topic, is_publisher, stops;
    int sockets[2]; /* from which it sends; at a group's port, or -1 */
    long left;      /* messages to send, or to come; -1: no end */
    uint8_t buffer[65536];
};

static void fail(const char *what) {
    perror(what);
    exit(1);
}
static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
static struct tempo_address from_socket(const struct sockaddr_storage *from) {
    struct tempo_address address;
    memset(&address, 0, sizeof address);
    if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;
        address.family = TEMPO_IPV6, address.port = ntohs(six->sin6_port);
        memcpy(address.addr, &six->sin6_addr, 16);
    } else {
        const struct sockaddr_in *four = (const struct sockaddr_in *)from;
        address.family = TEMPO_IPV4, address.port = ntohs(four->sin_port);
        memcpy(address.addr, &four->sin_addr, 4);
    }
    return address;
}
static socklen_t to_socket(const struct tempo_address *to, struct sockaddr_storage *address) {
    memset(address, 0, sizeof *address);
    if (to->family == TEMPO_IPV6) {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
        six->sin6_family = AF_INET6, six->sin6_port = htons(to->port);
        memcpy(&six->sin6_addr, to->addr, 16);
        return sizeof *six;
    }
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    four->sin_family = AF_INET, four->sin_port = htons(to->port);
    memcpy(&four->sin_addr, to->addr, 4);
    return sizeof *four;
}

static void on_send(void *context, const struct tempo_address *to, const uint8_t *octets, size_t n) {
    const struct program *p = (const struct program *)context;
    struct sockaddr_storage address;
    const socklen_t size = to_socket(to, &address);
    (void)!sendto(p->sockets[0], octets, n, 0, (const struct sockaddr *)&address, size); /* what cannot be sent is lost */
}
static void on_message(void *context, int topic, const struct tempo_frame *data) {
    struct program *p = (struct program *)context;
    (void)topic;
    if (p->left == 0) return;
    fwrite(data->octets, 1, data->n, stdout);
    putchar('\n');
    fflush(stdout);
    if (p->left > 0) p->left--;
}

static int bound(const struct tempo_address *at, int is_group) {
    struct sockaddr_storage address;
    const socklen_t size = to_socket(at, &address);
    const int one = 1, file = socket(address.ss_family, SOCK_DGRAM, 0);
    if (file < 0) fail("socket");
    if (is_group) setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); /* others on this machine are in the group, too */
    if (bind(file, (const struct sockaddr *)&address, size) != 0) fail("bind");
    if (is_group && at->family == TEMPO_IPV4) {
        struct ip_mreq group = { ((const struct sockaddr_in *)&address)->sin_addr, { INADDR_ANY } };
        if (setsockopt(file, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) != 0) fail("the group");
    } else if (is_group) {
        struct ipv6_mreq group = { ((const struct sockaddr_in6 *)&address)->sin6_addr, 0 };
        if (setsockopt(file, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group) != 0) fail("the group");
    }
    return file;
}
/* Takes udp://HOST:PORT/NUMBER apart, opens what it needs, and begins the end point. The topic's name is written to `name`. */
static void start(struct program *p, const char *topic, const char *url, char *name, size_t room) {
    char host[256] = "", port[6] = "2811", number[6] = "";
    struct tempo_address channel, own;
    uint64_t random[3];
    FILE *chance = fopen("/dev/urandom", "rb");
    const int is_told = sscanf(url, "udp://[%255[^]]]:%5[0-9]/%5[0-9]", host, port, number) >= 1
        || sscanf(url, "udp://%255[^:/]:%5[0-9]/%5[0-9]", host, port, number) >= 1;
    if (!is_told || chance == NULL || fread(random, sizeof random, 1, chance) != 1) fail(url);
    fclose(chance);
    snprintf(name, room, "%s%s%s%s", number[0] ? "@" : "", number, number[0] ? "/" : "", topic);
    memset(&own, 0, sizeof own), memset(&channel, 0, sizeof channel);
    own.family = TEMPO_IPV4, p->sockets[1] = -1;
    enum tempo_channel kind = TEMPO_NONE;
    if (strcmp(host, "*") == 0) own.port = (uint16_t)atoi(port);
    else {
        struct addrinfo hints, *found;
        struct sockaddr_storage address;
        memset(&hints, 0, sizeof hints), memset(&address, 0, sizeof address);
        hints.ai_socktype = SOCK_DGRAM;
        if (getaddrinfo(host, port, &hints, &found) != 0) fail(host);
        memcpy(&address, found->ai_addr, found->ai_addrlen);
        freeaddrinfo(found);
        channel = from_socket(&address), own.family = channel.family;
        const int is_group = channel.family == TEMPO_IPV4 ? channel.addr[0] >> 4 == 14 : channel.addr[0] == 0xff;
        kind = is_group ? TEMPO_GROUP : TEMPO_PEER;
        if (is_group) p->sockets[1] = bound(&channel, 1);
    }
    p->sockets[0] = bound(&own, 0);
    struct sockaddr_storage here;
    socklen_t size = sizeof here;
    getsockname(p->sockets[0], (struct sockaddr *)&here, &size);
    fprintf(stderr, "port %u\n", from_socket(&here).port);
    tempo_begin(&p->end_point, (uint32_t)random[0] | 1, random + 1, kind, &channel, p->buffer, sizeof p->buffer, &p->driver);
}

static void publish(struct program *p, const char *line, size_t n) {
    tempo_publish(&p->end_point, now(), p->topic, 0, 0, (const uint8_t *)line, n);
}
/* Sends the next number or, if there is one, the next line. */
static void send_next(struct program *p, int has_line) {
    char line[4096];
    if (p->left > 0) publish(p, line, (size_t)snprintf(line, sizeof line, "%ld", p->left)), p->left--;
    else if (has_line && fgets(line, sizeof line, stdin) != NULL) publish(p, line, strcspn(line, "\n"));
    else if (has_line) p->left = 0;
}
static void receive(struct program *p, int file) {
    static uint8_t octets[65536];
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    const ssize_t n = recvfrom(file, octets, sizeof octets, 0, (struct sockaddr *)&address, &size);
    if (n < 0) return;
    const struct tempo_address from = from_socket(&address);
    tempo_handle(&p->end_point, now(), &from, octets, (size_t)n);
}

int main(int argc, char **argv) {
    static struct program p;
    char name[300];
    if (argc < 4 || (strcmp(argv[1], "pub") != 0 && strcmp(argv[1], "sub") != 0)) {
        fprintf(stderr, "example pub|sub TOPIC udp://HOST:PORT [COUNT]\n");
        return 2;
    }
    p.is_publisher = argv[1][0] == 'p', p.left = argc > 4 ? atol(argv[4]) : -1;
    p.driver.context = &p, p.driver.send = on_send, p.driver.message = on_message;
    setvbuf(stdin, NULL, _IONBF, 0); /* so that poll knows of each line */
    start(&p, argv[2], argv[3], name, sizeof name);
    p.topic = tempo_add(&p.end_point, name, p.is_publisher ? TEMPO_PUBLISHER : TEMPO_SUBSCRIBER, 0, 0);
    if (p.topic < 0) fail("the topic");
    while (p.left != 0) {
        const uint64_t next = tempo_tick(&p.end_point, now()), at = now();
        const int sends = p.is_publisher && tempo_spread(&p.end_point, NULL, &p.end_point.topics[p.topic], 0) > 0;
        const int wait_ms = next > at ? (int)((next - at) / TEMPO_MS) + 1 : 0;
        struct pollfd files[3] = { { p.sockets[0], POLLIN, 0 }, { p.sockets[1], POLLIN, 0 }, { sends && p.left < 0 ? 0 : -1, POLLIN, 0 } };
        const int ready = poll(files, 3, sends && p.left > 0 ? 10 : wait_ms);
        for (int i = 0; i < 2; i++) if (ready > 0 && (files[i].revents & POLLIN)) receive(&p, p.sockets[i]);
        if (sends) send_next(&p, ready > 0 && files[2].revents != 0);
    }
    for (int i = 0; !p.is_publisher && i < TEMPO_PEERS; i++) {
        const struct tempo_peer *peer = &p.end_point.peers[i];
        if (peer->session != 0) fprintf(stderr, "received %lu, lost %lu\n", (unsigned long)peer->received, (unsigned long)peer->lost);
    }
    tempo_remove(&p.end_point, p.topic);
    return 0;
}
