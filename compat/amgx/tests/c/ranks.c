/* Communicators of one and two ranks, of an MPI in which they are ints. */
#include "check.h"

int MPI_Comm_size(int comm, int *size);
int MPI_Comm_size(int comm, int *size) {
    *size = comm;
    return 0;
}

int main(void) {
    AMGX_config_handle cfg;
    AMGX_resources_handle rsc;
    int one = 1, two = 2, device = 0;
    char text[1024];
    OK(AMGX_config_create(&cfg, ""));
    OK(AMGX_resources_create(&rsc, cfg, &one, 1, &device));
    OK(AMGX_resources_destroy(rsc));
    FAILS(AMGX_RC_NOT_SUPPORTED_TARGET, AMGX_resources_create(&rsc, cfg, &two, 1, &device));
    OK(AMGX_get_error_string(AMGX_RC_NOT_SUPPORTED_TARGET, text, sizeof text));
    puts(text);
    return 0;
}
