/* Peer for `terrace bench small`: y = A x as a plain loop over CSR, with OpenMP's threads. */
void plain(int threads, int rows, const int *offsets, const int *columns, const double *values, const double *x, double *y) {
    (void)threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (int k = offsets[i]; k < offsets[i + 1]; k++) sum += values[k] * x[columns[k]];
        y[i] = sum;
    }
}

/* The same without OpenMP. */
void plain_alone(int rows, const int *offsets, const int *columns, const double *values, const double *x, double *y) {
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (int k = offsets[i]; k < offsets[i + 1]; k++) sum += values[k] * x[columns[k]];
        y[i] = sum;
    }
}
