/* SPDX-License-Identifier: BSD-2-Clause */
/* Loads the provider as libfabric does, prints the version of the API that it claims, and lists its interfaces.
 * usage: fabric_newer PROVIDER */
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *lib = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	struct fi_provider *(*init)(void), *provider;
	struct fi_info *list = NULL;

	if (!lib) {
		printf("wrong: %s\n", dlerror());
		return 1;
	}
	*(void **)&init = dlsym(lib, "fi_prov_ini");
	provider = init();
	if (!provider || provider->getinfo(provider->fi_version, NULL, NULL, 0, NULL, &list) != 0) {
		printf("wrong: no provider, or no interfaces\n");
		return 1;
	}
	printf("version %u.%u\n", FI_MAJOR(provider->fi_version), FI_MINOR(provider->fi_version));
	for (struct fi_info *i = list; i; i = i->next)
		printf("domain %s\n", i->domain_attr->name);
	return 0;
}
