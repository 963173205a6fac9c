// SPDX-License-Identifier: BSD-2-Clause
// The browsers of the web shop (tools/figures/web.sh). Each has a connection, and makes an interaction of a mix as
// soon as it has the one before: a page and the two pictures on it. Prints lines "interactions,N,SECONDS";
// "errors,N", of which one is a browser that waits for more than 5 s; "all,N" with the interactions of the first fifth,
// which is not measured; and "NAME,PERCENT,MS": so many percent of the interactions NAME took longer.
// usage: web_browse.js HOST PORT browsing|shopping|ordering CONNECTIONS SECONDS
'use strict';
const net = require('net');
const [host, port, mix, connections, seconds] = process.argv.slice(2);

// TPC-W's mixes (specification 1.8, clause 5.3.1), percent: browsing, shopping, ordering.
const MIXES = {
	home: [29, 16, 9.12], new_products: [11, 5, 0.46], best_sellers: [11, 5, 0.46], product_detail: [21, 17, 12.35],
	search_request: [12, 20, 14.53], search_results: [11, 17, 13.08], shopping_cart: [2, 11.6, 13.53],
	customer_registration: [0.82, 3, 12.86], buy_request: [0.75, 2.6, 12.73], buy_confirm: [0.69, 1.2, 10.18],
	order_inquiry: [0.3, 0.75, 0.25], order_display: [0.25, 0.66, 0.22], admin_request: [0.1, 0.1, 0.12],
	admin_confirm: [0.09, 0.09, 0.11],
};
const LONGER = [100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1];
const column = ['browsing', 'shopping', 'ordering'].indexOf(mix);
const random = (n) => 1 + Math.floor(Math.random() * n);
function interaction() {
	let at = Math.random() * 100;
	for (const name in MIXES)
		if ((at -= MIXES[name][column]) < 0)
			return name;
	return 'home';
}

const times = {}, begin = process.hrtime.bigint() + BigInt(Math.round(seconds * 2e8));
let all = 0, errors = 0, ended = false;

class Browser {
	constructor(number) {
		this.customer = number;
		this.socket = net.connect({ host, port: Number(port), noDelay: true });
		this.left = '';
		this.socket.on('data', (data) => this.take(this.left + data.toString('latin1')));
		this.socket.on('error', () => this.fail());
		this.socket.on('end', () => this.fail());
		this.next();
	}
	next() {
		this.name = interaction();
		this.pictures = 0;
		this.begun = process.hrtime.bigint();
		this.ask(`/${this.name}?c=${this.customer}&i=${random(99990)}&s=${random(24) - 1}&t=` +
			(random(4096) + 4095).toString(16).slice(-3));
	}
	ask(path) {
		this.socket.write(`GET ${path} HTTP/1.1\r\nHost: shop\r\n\r\n`);
	}
	take(data) {
		const head = data.indexOf('\r\n\r\n'), length = /\r\nContent-Length: (\d+)/i.exec(data);
		if (head < 0 || !length || data.length < head + 4 + Number(length[1])) {
			this.left = data;
			return;
		}
		this.left = '';
		const good = data.startsWith('HTTP/1.1 200') && data.length === head + 4 + Number(length[1]) &&
			(this.pictures > 0 || (data.includes(`<title>${this.name}</title>`) &&
				data.endsWith('</html>')));
		if (!good)
			this.fail();
		else if (++this.pictures <= 2)
			this.ask(`/picture/${this.pictures}`);
		else
			this.came();
	}
	came() {
		const now = process.hrtime.bigint();
		all++;
		if (this.begun > begin)
			(times[this.name] ||= []).push(Number(now - this.begun) / 1e6);
		if (!ended)
			this.next();
	}
	fail() {
		if (!ended)
			errors++;
		this.socket.destroy();
	}
}

function report() {
	ended = true;
	errors += browsers.filter((browser) => process.hrtime.bigint() - browser.begun > 5000000000n).length;
	const n = Object.values(times).reduce((sum, list) => sum + list.length, 0);
	console.log(`interactions,${n},${Number(process.hrtime.bigint() - begin) / 1e9}\nerrors,${errors}\nall,${all}`);
	for (const name in times) {
		const list = times[name].sort((a, b) => a - b);
		for (const percent of LONGER)
			if (list.length * percent >= 100)
				console.log(`${name},${percent},${list[Math.min(list.length - 1,
					Math.floor(list.length * (1 - percent / 100)))].toFixed(3)}`);
	}
	process.exit(0);
}
const browsers = Array.from({ length: Number(connections) }, (_, i) => new Browser(i + 1));
setTimeout(report, seconds * 1000);
