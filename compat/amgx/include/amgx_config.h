/*
 * amgx_config.h: modes of the C API of AmgX, for Terrace. A mode says where objects live, and the number formats of vectors, matrices and indices:
 * four digits to the base 16.
 */
#ifndef TERRACE_AMGX_CONFIG_H
#define TERRACE_AMGX_CONFIG_H

/* Where objects live: the lowest digit. */
typedef enum { AMGX_host = 0, AMGX_device = 1, AMGX_memorySpaceNum = 16 } AMGX_MemorySpace;

/* Number formats. This library has double and float for values, and int for indices. */
typedef enum {
    AMGX_double = 0,
    AMGX_float = 1,
    AMGX_int = 2,
    AMGX_doublecomplex = 3,
    AMGX_complex = 4,
    AMGX_usint = 5,
    AMGX_uint = 6,
    AMGX_uint64 = 7,
    AMGX_int64 = 8,
    AMGX_bool = 9,
    AMGX_scalarPrecisionNum = 16
} AMGX_ScalarPrecision;

/* Format of vectors: the second digit. */
typedef enum {
    AMGX_vecDouble = 0,
    AMGX_vecFloat = 1,
    AMGX_vecInt = 2,
    AMGX_vecDoubleComplex = 3,
    AMGX_vecComplex = 4,
    AMGX_vecUSInt = 5,
    AMGX_vecUInt = 6,
    AMGX_vecUInt64 = 7,
    AMGX_vecInt64 = 8,
    AMGX_vecBool = 9,
    AMGX_vecPrecisionNum = 16,
    AMGX_VecPrecisionInst = 17
} AMGX_VecPrecision;

/* Format of matrices: the third digit. */
typedef enum {
    AMGX_matDouble = 0,
    AMGX_matFloat = 1,
    AMGX_matInt = 2,
    AMGX_matDoubleComplex = 3,
    AMGX_matComplex = 4,
    AMGX_matPrecisionNum = 16,
    AMGX_MatPrecisionInst = 17
} AMGX_MatPrecision;

/* Format of indices: the fourth digit. */
typedef enum { AMGX_indInt = 2, AMGX_indInt64 = 8, AMGX_indPrecisionNum = 16, AMGX_IndPrecisionInst = 17 } AMGX_IndPrecision;

/* Weights and sizes of the digits. */
typedef enum {
    AMGX_MemorySpaceBase = 1,
    AMGX_MemorySpaceSize = 16,
    AMGX_VecPrecisionBase = 16,
    AMGX_VecPrecisionSize = 16,
    AMGX_MatPrecisionBase = 256,
    AMGX_MatPrecisionSize = 16,
    AMGX_IndPrecisionBase = 4096,
    AMGX_IndPrecisionSize = 16
} AMGX_ModeNums;

#define AMGX_ASSEMBLE_MODE(memSpace, vecPrec, matPrec, indPrec) \
    ((memSpace) + 16 * (vecPrec) + 256 * (matPrec) + 4096 * (indPrec))
/* A digit of a mode by its type, such as AMGX_GET_MODE_VAL(AMGX_MatPrecision, mode), and a mode with another digit. */
#define AMGX_GET_MODE_VAL(type, mode) ((type)(((mode) / type##Base) % type##Size))
#define AMGX_SET_MODE_VAL(type, mode, value) ((AMGX_Mode)((mode) + ((value) - AMGX_GET_MODE_VAL(type, mode)) * type##Base))

/*
 * Modes: h or d for host or device, then the formats of vectors, matrices and indices. The first six are what this library has; others give
 * AMGX_RC_BAD_MODE. With DF the hierarchy is in single precision under a Krylov method in double precision. The modes beginning with d need a GPU,
 * unless the environment variable TERRACE_AMGX_DEVICE names another device of Terrace, such as host.
 */
typedef enum {
    AMGX_unset = -1,
    AMGX_mode_hDDI = 8192,
    AMGX_mode_dDDI = 8193,
    AMGX_mode_hDFI = 8448,
    AMGX_mode_dDFI = 8449,
    AMGX_mode_hFFI = 8464,
    AMGX_mode_dFFI = 8465,
    AMGX_mode_hIDI = AMGX_ASSEMBLE_MODE(0, 2, 0, 2),
    AMGX_mode_hIFI = AMGX_ASSEMBLE_MODE(0, 2, 1, 2),
    AMGX_mode_dIDI = AMGX_ASSEMBLE_MODE(1, 2, 0, 2),
    AMGX_mode_dIFI = AMGX_ASSEMBLE_MODE(1, 2, 1, 2),
    AMGX_mode_hZZI = AMGX_ASSEMBLE_MODE(0, 3, 3, 2),
    AMGX_mode_hZCI = AMGX_ASSEMBLE_MODE(0, 3, 4, 2),
    AMGX_mode_hCCI = AMGX_ASSEMBLE_MODE(0, 4, 4, 2),
    AMGX_mode_dZZI = AMGX_ASSEMBLE_MODE(1, 3, 3, 2),
    AMGX_mode_dZCI = AMGX_ASSEMBLE_MODE(1, 3, 4, 2),
    AMGX_mode_dCCI = AMGX_ASSEMBLE_MODE(1, 4, 4, 2),
    AMGX_modeRange = 65536
} AMGX_Mode;

#endif
