#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw run --mpi: the environment that an MPI's ranks need for the libfabric provider.
. "${0%/*}/../lib.sh"
[ -e "$BUILD/lib/diwarp/fi/libdiwarp-fi.so" ] || { skip "built without libfabric-dev"; end; }
two_namespaces 1500 || { not_ok "two network namespaces"; end; }
unset FI_PROVIDER_PATH FI_PROVIDER FI_DIWARP_QKEY OMPI_MCA_pml OMPI_MCA_mca_base_env_list

run "a program is run" "$DIW" run --mpi -- env
check "... with the provider's directory" matches "$OUT" "FI_PROVIDER_PATH=[^:]*/lib/diwarp/fi"
for setting in FI_PROVIDER=diwarp OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi OMPI_MCA_mtl_ofi_provider_include=diwarp \
	MPIR_CVAR_CH4_NETMOD=ofi; do
	check "... $setting" matches "$OUT" "$setting"
done
check "... a list for other hosts" matches "$OUT" \
	'OMPI_MCA_mca_base_env_list=FI_PROVIDER_PATH;FI_PROVIDER;FI_DIWARP_QKEY'
key=$(sed -n 's/^FI_DIWARP_QKEY=//p' <<< "$OUT")
run "another job" "$DIW" run --mpi -- env
check "... has another Q_Key" [ "$key" != "$(sed -n 's/^FI_DIWARP_QKEY=//p' <<< "$OUT")" ]
run "what is set already stays" env OMPI_MCA_pml=ob1 FI_DIWARP_QKEY=7 FI_DIWARP_MODE=sendrecv \
	FI_PROVIDER_PATH=/somewhere \
	"$DIW" run --mpi env
check "... a setting" matches "$OUT" 'OMPI_MCA_pml=ob1'
check "... the Q_Key" matches "$OUT" 'FI_DIWARP_QKEY=7'
check "... other directories, behind" matches "$OUT" 'FI_PROVIDER_PATH=[^:]*/lib/diwarp/fi:/somewhere'
check "... and goes to other hosts" matches "$OUT" 'mca_base_env_list=[A-Z_;]*FI_DIWARP_MODE'
expect 3 "the exit status is the program's" "$DIW" run --mpi sh -c 'exit 3'
if [ "$MODE" = release ] || [ "$MODE" = debug ]; then
	run "libfabric finds the provider" "$DIW" run --mpi timeout 60 "$BUILD/tests/system/fabric" diw_va
fi
end
