/* tempo.h and tempo_frames.h for the tests (tests/c_header): reads and writes frames that they made, and is an end point that they drive.
 *
 *     test size           octets of an end point, and of its buffer
 *     test frames FILE    each a length (4 octets, little-endian) and octets: what tempo.h says of them, and what it writes in turn
 *     test values FILE    the same, but the octets are chance, of which field values are made: the frame, and the values
 *     test endpoint       commands from standard input, one a line; what it does, and a line that begins with "=", for each */
#include "tempo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *what) {
    fprintf(stderr, "test: %s\n", what);
    exit(2);
}
static void print_hex(const uint8_t *octets, size_t n) {
    if (n == 0) putchar('-');
    for (size_t i = 0; i < n; i++) printf("%02x", octets[i]);
}
static void print_address(const struct tempo_address *address) {
    printf("%u/%u/", address->family, address->port);
    print_hex(address->addr, 16);
}

/* ---- Frames ---- */

static void print_frame(const struct tempo_frame *f) {
    const struct tempo_announcement *a = &f->as.announcement;
    const struct tempo_probe *p = &f->as.probe;
    printf(" kind=%u broker=%d session=%" PRIu32 " topic=%" PRIu32 " sequence=%" PRIu32 " sent=%" PRIu64 " priority=%d", f->kind,
           (f->flags & TEMPO_BY_BROKER) != 0, f->session, f->topic, f->sequence, f->sent, f->priority);
    if (f->kind == TEMPO_ANNOUNCEMENT) {
        printf(" given=%" PRIu64 " returned=%" PRIu64 " rate=%" PRIu32 " highest=%" PRIu32 " deadline=%" PRIu32 " end_points=%" PRIu32
               " largest=%" PRIu32 " period=%u role=%u octets=", a->given, a->returned, a->rate, a->highest_rate, a->deadline_us, a->end_points,
               a->largest, a->period_ms, a->role);
        print_hex(f->octets, f->n);
    } else if (f->kind == TEMPO_DATA) {
        printf(" content=%d fragment=%d", (f->flags & TEMPO_CONTENT) >> 2, (f->flags & TEMPO_FRAGMENT) != 0);
        if (f->flags & TEMPO_FRAGMENT) printf(" total=%" PRIu32 " at=%" PRIu32, f->as.fragment.total, f->as.fragment.at);
        printf(" octets=");
        print_hex(f->octets, f->n);
    } else if (f->kind == TEMPO_PROBE || f->kind == TEMPO_ECHO) {
        struct tempo_address to = { p->port, p->family, { 0 } };
        memcpy(to.addr, p->addr, 16);
        printf(" sent=%" PRIu64 " prober=%" PRIu32 " topic=%" PRIu32 " number=%" PRIu32 " to=", p->sent, p->prober, p->topic, p->number);
        print_address(&to);
        printf(" hops=%u echoed_by=%" PRIu32, p->hops, p->echoed_by);
    } else if (f->kind == TEMPO_REPORT) {
        printf(" received=%" PRIu64 " lost=%" PRIu64 " rate=%" PRIu32 " end_points=%" PRIu32, f->as.report.received, f->as.report.lost,
               f->as.report.rate, f->as.report.end_points);
    } else if (f->kind == TEMPO_NAME) {
        printf(" octets=");
        print_hex(f->octets, f->n);
    } else printf(" role=%u", f->as.bye);
}
/* A buffer of exactly the frame's size, so that an octet beyond it is noticed. */
static void print_written(struct tempo_frame *f) {
    uint8_t most[TEMPO_HEADER + TEMPO_PAYLOAD], *exact;
    const size_t n = tempo_write(f, most, sizeof most);
    exact = (uint8_t *)malloc(n + 1);
    if (exact == NULL) fail("no memory");
    if (n > 0 && (tempo_write(f, exact, n) != n || tempo_write(f, exact, n - 1) != 0)) fail("a frame's room is not its size");
    printf(" ");
    print_hex(exact, n);
    free(exact);
}
static void read_back(uint8_t *octets, size_t n) {
    static const char *const verdicts[] = { "good", "incomplete", "magic", "version", "length", "session", "kind", "payload" };
    struct tempo_frame f;
    size_t size = 0;
    const enum tempo_verdict verdict = tempo_read(&f, octets, n, &size);
    printf("%s", verdicts[verdict]);
    if (verdict == TEMPO_GOOD || verdict == TEMPO_INCOMPLETE || verdict == TEMPO_BAD_KIND || verdict == TEMPO_BAD_PAYLOAD) printf(" %zu", size);
    if (verdict == TEMPO_GOOD) print_frame(&f), print_written(&f);
    printf("\n");
}
/* Values from chance: each field is what the next octets are. */
static void write_values(uint8_t *octets, size_t n) {
    struct tempo_frame f;
    if (n < sizeof f + 8) fail("too little chance");
    memset(&f, 0, sizeof f);
    f.kind = (uint8_t)(1 + octets[0] % 7), f.flags = octets[1] & TEMPO_BY_BROKER;
    memcpy(&f.session, octets + 2, 4), memcpy(&f.topic, octets + 6, 4), memcpy(&f.sequence, octets + 10, 4), memcpy(&f.sent, octets + 14, 8);
    memcpy(&f.priority, octets + 22, 2), memcpy(&f.as, octets + 24, sizeof f.as);
    f.session |= f.session == 0, f.octets = octets + 24 + sizeof f.as, f.n = n - 24 - sizeof f.as;
    if (f.kind == TEMPO_ANNOUNCEMENT || f.kind == TEMPO_NAME) {
        static char name[256];
        f.n = 1 + f.n % 255, f.octets = (const uint8_t *)name;
        for (size_t i = 0; i < f.n; i++) name[i] = (char)(' ' + octets[i % n] % 95);
        if (f.kind == TEMPO_ANNOUNCEMENT) f.as.announcement.role = (uint8_t)(1 + octets[1] % 2);
        f.as.announcement.period_ms = (uint16_t)(10 + f.as.announcement.period_ms % 59991);
    } else if (f.kind == TEMPO_DATA) {
        f.flags = (uint8_t)(f.flags | octets[1] % 3 << 2 | (octets[1] >> 7 && f.n > 0 ? TEMPO_FRAGMENT : 0));
        f.as.fragment.total = (uint32_t)(f.n + f.as.fragment.total % (TEMPO_LARGEST - f.n + 1));
        f.as.fragment.at = f.as.fragment.at % (uint32_t)(f.as.fragment.total - f.n + 1);
    } else if (f.kind == TEMPO_PROBE || f.kind == TEMPO_ECHO) {
        f.as.probe.family = (uint8_t)(octets[1] % 3 == 0 ? TEMPO_NOWHERE : octets[1] % 3 == 1 ? TEMPO_IPV4 : TEMPO_IPV6), f.as.probe.reserved = 0;
        if (f.as.probe.family == TEMPO_NOWHERE) f.as.probe.port = 0;
        if (f.as.probe.family != TEMPO_IPV6) memset(f.as.probe.addr + f.as.probe.family, 0, 16u - f.as.probe.family);
    } else if (f.kind == TEMPO_BYE) f.as.bye = (uint8_t)(1 + octets[1] % 2);
    printf("values");
    print_frame(&f), print_written(&f);
    printf("\n");
}
static int each(const char *path, void (*what)(uint8_t *octets, size_t n)) {
    FILE *file = fopen(path, "rb");
    uint8_t length[4];
    if (file == NULL) fail("no such file");
    while (fread(length, 1, 4, file) == 4) {
        const size_t n = (size_t)length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16;
        uint8_t *octets = (uint8_t *)malloc(n == 0 ? 1 : n); /* of its own, so that an octet beyond it is noticed */
        if (octets == NULL || fread(octets, 1, n, file) != n) fail("the file is cut");
        what(octets, n);
        free(octets);
    }
    fclose(file);
    return 0;
}

/* ---- An end point ---- */

static struct tempo_endpoint end_point;
static uint8_t buffer[4096];
static int answers_with = -1; /* a topic on which each message is sent back */
static uint64_t now;

static void on_send(void *context, const struct tempo_address *to, const uint8_t *octets, size_t n) {
    (void)context;
    printf("send ");
    print_address(to);
    printf(" ");
    print_hex(octets, n);
    printf("\n");
}
static void on_message(void *context, int topic, const struct tempo_frame *f) {
    printf("message topic=%d", topic);
    (void)context;
    print_frame(f);
    printf("\n");
    if (answers_with >= 0) tempo_publish(&end_point, now, answers_with, 0, 0, f->octets, f->n);
}
static const struct tempo_driver driver = { NULL, on_send, on_message };

static char *word(void) {
    char *next = strtok(NULL, " \n");
    if (next == NULL) fail("a word is missing");
    return next;
}
static uint64_t number(void) {
    return strtoull(word(), NULL, 10);
}
static size_t hex(const char *from, uint8_t *to, size_t room) {
    size_t n = 0;
    if (*from == '-') return 0;
    for (; from[0] && from[1] && n < room; from += 2, n++) {
        const char octet[3] = { from[0], from[1], 0 };
        to[n] = (uint8_t)strtoul(octet, NULL, 16);
    }
    return n;
}
static struct tempo_address address(void) {
    struct tempo_address address;
    char *at = word();
    memset(&address, 0, sizeof address);
    address.family = (uint8_t)strtoul(at, &at, 10);
    address.port = (uint16_t)strtoul(at + 1, &at, 10);
    hex(at + 1, address.addr, 16);
    return address;
}
static void begin(void) {
    const uint32_t session = (uint32_t)number();
    uint64_t secret[2];
    secret[0] = number(), secret[1] = number();
    const enum tempo_channel kind = (enum tempo_channel)number();
    const struct tempo_address channel = address();
    const size_t octets = (size_t)number();
    if (octets > sizeof buffer) fail("no such buffer");
    tempo_begin(&end_point, session, secret, kind, &channel, octets > 0 ? buffer : NULL, octets, &driver);
    end_point.period_ms = (uint16_t)number();
    answers_with = -1;
    printf("=\n");
}
static void add(void) {
    static char names[64][256];
    static int next;
    const int role = (int)number();
    const uint32_t rate = (uint32_t)number(), deadline_us = (uint32_t)number();
    char *name = names[next++ % 64];
    memset(name, 0, 256);
    hex(word(), (uint8_t *)name, 255);
    printf("= %d\n", tempo_add(&end_point, name, role == 1 ? TEMPO_PUBLISHER : TEMPO_SUBSCRIBER, rate, deadline_us));
}
static void handle(void) {
    static uint8_t octets[70000];
    now = number();
    const struct tempo_address from = address();
    const size_t n = hex(word(), octets, sizeof octets);
    uint8_t *exact = (uint8_t *)malloc(n == 0 ? 1 : n);
    if (exact == NULL) fail("no memory");
    memcpy(exact, octets, n);
    const ptrdiff_t consumed = tempo_handle(&end_point, now, &from, exact, n);
    free(exact);
    printf("= %td\n", consumed);
}
static void publish(void) {
    static uint8_t octets[70000];
    now = number();
    const int topic = (int)number();
    const int16_t priority = (int16_t)strtol(word(), NULL, 10);
    const int content = (int)number() << 2;
    const size_t n = hex(word(), octets, sizeof octets);
    printf("= %d\n", tempo_publish(&end_point, now, topic, priority, content, octets, n));
}
static void tell(void) {
    for (int i = 0; i < TEMPO_TOPICS; i++) {
        const struct tempo_topic *t = &end_point.topics[i];
        if (t->says.role != 0)
            printf("topic %d sent=%" PRIu64 " unheard=%" PRIu64 " too_large=%" PRIu64 " echoes=%" PRIu64 " delay=%" PRIu64 "\n", i, t->sent,
                   t->unheard, t->too_large, t->echoes, t->delay_ns);
    }
    for (int i = 0; i < TEMPO_PEERS; i++) {
        const struct tempo_peer *p = &end_point.peers[i];
        if (p->session != 0)
            printf("peer %" PRIu32 " topic=%d rate=%" PRIu32 " received=%" PRIu64 " lost=%" PRIu64 " late=%" PRIu64 " repeated=%" PRIu64
                   " delay=%" PRIu64 "\n", p->session, (int)(p->topic - end_point.topics), p->says.rate, p->received, p->lost, p->late,
                   p->repeated, p->delay_ns);
    }
    printf("= unreadable=%" PRIu64 " unbound=%" PRIu64 " no_room=%" PRIu64 " fragments=%" PRIu64, end_point.counters.unreadable,
           end_point.counters.unbound, end_point.counters.no_room, end_point.counters.fragments);
    printf(" not_moved=%" PRIu64 " met=%" PRIu64 " moved=%" PRIu64 " replaced=%" PRIu64 " expired=%" PRIu64 " left=%" PRIu64 "\n",
           end_point.counters.not_moved, end_point.counters.met, end_point.counters.moved, end_point.counters.replaced,
           end_point.counters.expired, end_point.counters.left);
}
static int run(void) {
    static char line[150000];
    while (fgets(line, sizeof line, stdin) != NULL) {
        const char *command = strtok(line, " \n");
        if (command == NULL) continue;
        if (strcmp(command, "begin") == 0) begin();
        else if (strcmp(command, "add") == 0) add();
        else if (strcmp(command, "handle") == 0) handle();
        else if (strcmp(command, "publish") == 0) publish();
        else if (strcmp(command, "tell") == 0) tell();
        else if (strcmp(command, "tick") == 0) printf("= %" PRIu64 "\n", tempo_tick(&end_point, number()));
        else if (strcmp(command, "remove") == 0) tempo_remove(&end_point, (int)number()), printf("=\n");
        else if (strcmp(command, "opened") == 0) printf("=\n"); /* which only others need to be told */
        else if (strcmp(command, "answer") == 0) answers_with = (int)number(), printf("=\n");
        else if (strcmp(command, "name") == 0) {
            static char name[256];
            memset(name, 0, sizeof name), hex(word(), (uint8_t *)name, 255), end_point.name = name, printf("=\n");
        } else if (strcmp(command, "closed") == 0) {
            const struct tempo_address stream = address();
            tempo_closed(&end_point, &stream), printf("=\n");
        } else if (strcmp(command, "cookie") == 0) {
            uint64_t secret[2];
            secret[0] = number(), secret[1] = number();
            const struct tempo_address of = address();
            printf("= %" PRIu64 "\n", tempo_cookie(secret, &of, (uint32_t)number()));
        } else fail(command);
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "frames") == 0) return each(argv[2], read_back);
    if (argc == 3 && strcmp(argv[1], "values") == 0) return each(argv[2], write_values);
    if (argc == 2 && strcmp(argv[1], "endpoint") == 0) return run();
    if (argc == 2 && strcmp(argv[1], "size") == 0) return printf("%zu\n", sizeof(struct tempo_endpoint) + sizeof buffer), 0;
    fail("say what");
    return 2;
}
