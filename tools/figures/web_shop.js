// SPDX-License-Identifier: BSD-2-Clause
// The application of the web shop (tools/figures/web.sh): TPC-W's interactions in miniature. Each page is a few
// statements, a round trip to PostgreSQL each. The home page begins a session, with an empty cart.
// usage: web_shop.js HOST PORT DATABASE_HOST DATABASE_PORT CONNECTIONS
'use strict';
const http = require('http');
const net = require('net');
const [host, port, databaseHost, databasePort, connections] = process.argv.slice(2);

// A connection that speaks version 3 of PostgreSQL's protocol, one simple query at a time.
class Connection {
	constructor() {
		this.left = Buffer.alloc(0);
		this.socket = net.connect({ host: databaseHost, port: Number(databasePort), noDelay: true });
		this.socket.on('data', (data) => this.take(Buffer.concat([this.left, data])));
		this.socket.on('close', () => process.exit(1));
		this.socket.on('error', (error) => console.error(`database: ${error.message}`));
		const start = Buffer.from('\0\0\0\0\0\x03\0\0user\0postgres\0database\0postgres\0\0');
		start.writeInt32BE(start.length);
		this.answered = () => give(this);
		this.socket.write(start);
	}
	query(sql) {
		return new Promise((resolve, reject) => {
			const text = Buffer.from(`Q\0\0\0\0${sql}\0`);
			text.writeInt32BE(text.length - 1, 1);
			[this.rows, this.failed] = [[], null];
			this.answered = () => (this.failed ? reject(new Error(this.failed)) : resolve(this.rows));
			this.socket.write(text);
		});
	}
	take(data) {
		let at = 0;
		while (at + 5 <= data.length && at + 1 + data.readInt32BE(at + 1) <= data.length) {
			const end = at + 1 + data.readInt32BE(at + 1);
			this.message(String.fromCharCode(data[at]), data.subarray(at + 5, end));
			at = end;
		}
		this.left = data.subarray(at);
	}
	message(type, body) {
		if (type === 'D')
			this.rows.push(fields(body));
		else if (type === 'E')
			this.failed = body.toString();
		else if (type === 'Z')
			this.answered();
	}
}
function fields(body) {
	const row = [];
	for (let i = 0, at = 2; i < body.readInt16BE(0); i++) {
		const length = body.readInt32BE(at);
		row.push(length < 0 ? '' : body.toString('utf8', at + 4, at + 4 + length));
		at += 4 + Math.max(length, 0);
	}
	return row;
}

const idle = [], waiting = [];
function give(connection) {
	const next = waiting.shift();
	next ? next(connection) : idle.push(connection);
}
const take = () => (idle.length ? Promise.resolve(idle.pop()) : new Promise((resolve) => waiting.push(resolve)));

const customer = (c) => `SELECT name FROM customer WHERE id = ${c}`;
const promotions = (c, i) => `SELECT id, title, cost FROM item WHERE id BETWEEN ${i} AND ${i} + 4`;
const cart = (c) => 'SELECT i.id, i.title, i.cost, l.quantity FROM cart_line l JOIN item i ON i.id = l.item ' +
	`WHERE l.customer = ${c}`;
// The statements of each interaction. C, I, S, T: a customer, an item, a subject, the begin of a title.
const pages = {
	home: (c, i) => [customer(c), `DELETE FROM cart_line WHERE customer = ${c}`, promotions(c, i)],
	new_products: (c, i, s) => [promotions(c, i),
		`SELECT id, title, author, cost FROM item WHERE subject = ${s} ORDER BY published DESC LIMIT 50`],
	best_sellers: (c, i, s) => [promotions(c, i), 'SELECT i.id, i.title, i.author, sum(l.quantity) ' +
		'FROM order_line l JOIN item i ON i.id = l.item WHERE l.order_id > ' +
		`(SELECT max(id) - 333 FROM orders) AND i.subject = ${s} GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT 50`],
	product_detail: (c, i) => [`SELECT * FROM item WHERE id = ${i}`],
	search_request: (c, i) => [promotions(c, i)],
	search_results: (c, i, s, t) => [promotions(c, i),
		`SELECT id, title, author, cost FROM item WHERE title LIKE '${t}%' ORDER BY title LIMIT 50`],
	shopping_cart: (c, i) => [`INSERT INTO cart_line VALUES (${c}, ${i}, 1) ON CONFLICT (customer, item) DO ` +
		'UPDATE SET quantity = cart_line.quantity + 1', cart(c), promotions(c, i)],
	customer_registration: (c) => [customer(c)],
	buy_request: (c) => [customer(c), cart(c)],
	buy_confirm: (c) => [`INSERT INTO orders (customer) VALUES (${c}); INSERT INTO order_line SELECT ` +
		`currval('orders_id_seq'), item, quantity FROM cart_line WHERE customer = ${c}; UPDATE item SET ` +
		`stock = stock - 1 WHERE id IN (SELECT item FROM cart_line WHERE customer = ${c}); ` +
		`DELETE FROM cart_line WHERE customer = ${c}`, customer(c)],
	order_inquiry: (c) => [customer(c)],
	order_display: (c) => [`SELECT id, placed FROM orders WHERE customer = ${c} ORDER BY id DESC LIMIT 1`,
		'SELECT i.title, l.quantity FROM order_line l JOIN item i ON i.id = l.item WHERE l.order_id = ' +
		`(SELECT max(id) FROM orders WHERE customer = ${c})`],
	admin_request: (c, i) => [`SELECT * FROM item WHERE id = ${i}`],
	admin_confirm: (c, i) => [`UPDATE item SET cost = cost + 1 WHERE id = ${i}`,
		`SELECT * FROM item WHERE id = ${i}`],
};

// A page has 4 KB around its rows.
const style = `<style>${'td { padding: 0.5em; } '.repeat(170)}</style>`;
const line = (row) => `<tr><td>${row.join('</td><td>')}</td></tr>`;
async function page(url) {
	const { pathname, searchParams } = new URL(url, 'http://shop');
	const name = pathname.slice(1), number = (key) => Number(searchParams.get(key)) | 0;
	if (!pages[name])
		return null;
	const text = (searchParams.get('t') || '').replace(/[^0-9a-f]/g, '');
	const connection = await take();
	try {
		let tables = '';
		for (const sql of pages[name](number('c'), number('i'), number('s'), text))
			tables += `<table>${(await connection.query(sql)).map(line).join('\n')}</table>\n`;
		return `<html><head><title>${name}</title>${style}</head><body>\n${tables}</body></html>`;
	} finally {
		give(connection);
	}
}

for (let i = 0; i < Number(connections); i++)
	new Connection();
http.createServer({ keepAliveTimeout: 60000 }, (request, response) => {
	const send = (status, body) => response.writeHead(status, { 'Content-Type': 'text/html',
		'Content-Length': Buffer.byteLength(body) }).end(body);
	page(request.url).then((body) => (body ? send(200, body) : send(404, 'no such page')), (error) => {
		console.error(error.message);
		send(500, 'an error');
	});
}).listen(Number(port), host, 1024);
