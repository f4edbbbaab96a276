/* What has to be so, or the program ends and says what is not. */

#pragma once

#include <campanile.h>

#include <stdio.h>
#include <stdlib.h>

#define MUST(...)                                                                                             \
    do {                                                                                                      \
        if (!(__VA_ARGS__)) {                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #__VA_ARGS__, campanile_last_error()); \
            _Exit(1);                                                                                         \
        }                                                                                                     \
    } while (0)
#define OK(call) MUST((call) == CAMPANILE_STATUS_OK)
