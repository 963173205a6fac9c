/* SPDX-License-Identifier: BSD-2-Clause */
/* The vectors of docs/ud-profile.md section 15, octet for octet. */
#ifndef TESTS_WIRE_VECTORS_H
#define TESTS_WIRE_VECTORS_H

#define V1_SEND \
	"41 43 00 00 00 00 00 00 00 00 01 02 03 04 00 00 " \
	"00 00 1b ad ca fe 5a 17 00 00 00 04 64 69 77 61 " \
	"7c 0b a2 12"
#define V2_SEND_SE_IMM \
	"41 65 00 00 00 00 00 00 00 00 01 02 03 05 00 00 " \
	"00 00 1b ad ca fe 5a 17 00 00 00 0b ca fe 00 42 " \
	"68 65 6c 6c 6f 20 77 6f 72 6c 64 b8 2a da 12"
#define V3_SEND_FIRST \
	"01 43 00 00 00 00 00 00 00 00 ff ff ff ff 00 00 " \
	"00 00 1b ad ca fe 5a 17 00 00 00 14 20 21 22 23 " \
	"24 25 26 27 28 29 2a 2b 55 90 8b 46"
#define V3_SEND_LAST \
	"41 43 00 00 00 00 00 00 00 00 ff ff ff ff 00 00 " \
	"00 0c 1b ad ca fe 5a 17 00 00 00 14 2c 2d 2e 2f " \
	"30 31 32 33 14 6e 0f 51"
#define V4_SEND_EMPTY \
	"41 43 00 00 00 00 00 00 00 00 00 00 00 00 00 00 " \
	"00 00 1b ad ca fe 5a 17 00 00 00 00 be 2e da 97"
#define V5_RECORD_FIRST \
	"81 4c a1 b2 c3 7e 00 00 7f 00 12 34 50 00 1b ad " \
	"ca fe 5a 17 0a 0b 0c 0d 00 00 00 00 00 00 00 18 " \
	"11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 11 " \
	"11 2c 80 1f"
#define V5_RECORD_LAST \
	"c1 4c a1 b2 c3 7e 00 00 7f 00 12 34 50 10 1b ad " \
	"ca fe 5a 17 0a 0b 0c 0d 00 00 00 10 00 00 00 18 " \
	"22 22 22 22 22 22 22 22 e6 27 d0 8d"
#define V6_RECORD_IMM \
	"c1 7c a1 b2 c3 7e 00 00 7f 00 12 34 50 00 1b ad " \
	"ca fe 5a 17 0a 0b 0c 0e 00 00 00 00 00 00 00 08 " \
	"de ad be ef 41 42 43 44 45 46 47 48 56 01 64 c6"
#define V7_READ_REQUEST \
	"41 41 00 00 00 00 00 00 00 01 01 02 03 06 00 00 " \
	"00 00 1b ad ca fe 5a 17 00 00 00 1c 0f 1e 2d 3c " \
	"00 00 56 00 00 00 10 00 00 00 00 08 a1 b2 c3 7e " \
	"00 00 7f 00 12 34 50 08 b6 8a dd c0"
#define V8_READ_RESPONSE \
	"c1 42 0f 1e 2d 3c 00 00 56 00 00 00 10 00 00 00 " \
	"00 00 33 c4 01 02 03 06 00 00 00 00 00 00 00 08 " \
	"22 22 22 22 22 22 22 22 10 68 3b 07"
#define V9_UC_WRITE \
	"c1 40 a1 b2 c3 7e 00 00 7f 00 12 34 50 00 1b ad " \
	"ca fe 5a 17 0a 0b 0c 0f 00 00 00 00 00 00 00 04 " \
	"ff fe fd fc 9f e5 ef 63"
#define V10_FORGED \
	"c1 4c a1 b2 c3 ff 00 00 7f 00 12 34 50 00 1b ad " \
	"ca fe 5a 17 0a 0b 0c 10 00 00 00 00 00 00 00 20 " \
	"40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f " \
	"50 51 52 53 54 55 56 57 58 59 5a 5b 5c 5d 5e 5f " \
	"f2 1f 8d fe"
#define V11_ERROR \
	"41 47 00 00 00 00 00 00 00 02 77 66 55 44 00 00 " \
	"00 00 00 00 00 00 33 c4 00 00 00 24 11 00 c0 00 " \
	"00 40 c1 4c a1 b2 c3 ff 00 00 7f 00 12 34 50 00 " \
	"1b ad ca fe 5a 17 0a 0b 0c 10 00 00 00 00 00 00 " \
	"59 dc 11 40"
#define V12_ERROR \
	"41 47 00 00 00 00 00 00 00 02 77 66 55 45 00 00 " \
	"00 00 00 00 00 00 33 c4 00 00 00 1c 01 02 c0 00 " \
	"00 38 41 41 00 00 00 00 00 00 00 01 01 02 03 06 " \
	"00 00 00 00 1b ad ca fe b4 05 81 d0"
#define V13_GROUP_SEND \
	"41 43 00 00 00 00 00 00 00 00 01 02 03 07 00 00 " \
	"00 00 1b ad ca fe 5a 17 00 00 00 09 74 6f 20 67 " \
	"72 6f 75 70 73 74 7e 33 2c"
#define V13_GROUP_RECORD \
	"c1 4c 00 c0 de 07 00 00 00 00 00 00 10 00 1b ad " \
	"ca fe 5a 17 0a 0b 0c 11 00 00 00 00 00 00 00 09 " \
	"74 6f 20 6d 65 6d 6f 72 79 c3 71 97 02"
#define V14_QUESTION \
	"41 4d 00 00 00 00 00 00 00 02 01 02 03 08 00 00 " \
	"00 00 00 00 00 00 5a 17 00 00 00 08 51 de ca 11 " \
	"00 00 00 00 ca 56 2f 5f"
#define V14_ANSWER \
	"41 4d 00 00 00 00 00 00 00 02 77 66 55 46 00 00 " \
	"00 00 00 00 00 00 33 c4 00 00 00 08 51 de ca 11 " \
	"00 20 00 00 da 2f cd 7e"
#define V15_CHALLENGE \
	"41 4e 00 00 00 00 00 00 00 02 77 66 55 47 00 00 " \
	"00 00 00 00 00 00 33 c4 00 00 00 10 01 01 5a 17 " \
	"01 02 03 06 5e ed 1e 55 c0 ff ee 42 a6 00 91 a9"
#define V15_PROOF \
	"41 4e 00 00 00 00 00 00 00 02 01 02 03 09 00 00 " \
	"00 00 00 00 00 00 5a 17 00 00 00 10 02 01 5a 17 " \
	"01 02 03 06 5e ed 1e 55 c0 ff ee 42 6d 23 a3 a4"

#endif
