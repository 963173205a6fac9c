/* SPDX-License-Identifier: BSD-2-Clause */
/* diw run --mpi: the environment by which an MPI's ranks, on this host and on others, use the libfabric provider. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "tools/run/run.h"
#include "tools/tool.h"

#define PROVIDER "fi/libdiwarp-fi.so"

/* Defaults: variables that are already set are kept. */
static const struct { const char *name, *value; } mpi_defaults[] = {
	{ "FI_PROVIDER", "diwarp" },
	/* OpenMPI: messages by libfabric only; one-sided operations by messages. */
	{ "OMPI_MCA_pml", "cm" }, { "OMPI_MCA_mtl", "ofi" }, { "OMPI_MCA_mtl_ofi_provider_include", "diwarp" },
	{ "OMPI_MCA_osc", "^rdma,ucx" },
	/* MPICH and the current MVAPICH. */
	{ "MPIR_CVAR_CH4_NETMOD", "ofi" },
};

/* Variables that OpenMPI passes to ranks on other hosts, if they are set. Hydra passes all variables. */
static const char *const mpi_exported[] = {
	"FI_PROVIDER_PATH", "FI_PROVIDER", "FI_DIWARP_QKEY", "FI_DIWARP_MODE", "FI_DIWARP_EAGER", "FI_DIWARP_BUFFERED",
	"FI_DIWARP_IFACE", "DIWARP_IMPAIR", "DIWARP_LLP", "DIWARP_LOG", "DIWARP_LOOPBACK", "DIWARP_PROGRESS",
};

/* Each job has its own Q_Key: its endpoints accept nothing from another job. */
static bool mpi_set_qkey(void)
{
	uint32_t key;
	char text[12];

	if (getrandom(&key, sizeof key, 0) != sizeof key)
		return false;
	snprintf(text, sizeof text, "%u", key);
	return setenv("FI_DIWARP_QKEY", text, 0) == 0;
}

static bool mpi_export(void)
{
	char list[512] = "";
	size_t n = 0;

	for (size_t i = 0; i < TOOL_COUNT(mpi_exported); i++)
		if (getenv(mpi_exported[i]))
			n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ";" : "", mpi_exported[i]);
	return setenv("OMPI_MCA_mca_base_env_list", list, 0) == 0;
}

int run_set_mpi(void)
{
	const char *old = getenv("FI_PROVIDER_PATH");
	char dir[PATH_MAX];
	int rc = run_find_libdir(PROVIDER, dir);
	bool done;

	if (rc != TOOL_OK)
		return rc;
	done = run_set_list("FI_PROVIDER_PATH", dir, old ? old : "") && mpi_set_qkey();
	for (size_t i = 0; done && i < TOOL_COUNT(mpi_defaults); i++)
		done = setenv(mpi_defaults[i].name, mpi_defaults[i].value, 0) == 0;
	return done && mpi_export() ? TOOL_OK : tool_failed("the environment cannot be set");
}
