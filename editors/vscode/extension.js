// Starts `dlc lsp`, and runs programs and tests in a terminal. Everything else is the server's.
"use strict";

const vscode = require("vscode");
const { LanguageClient, RevealOutputChannelOn } = require("vscode-languageclient/node");

let client;

function command() {
  const words = vscode.workspace.getConfiguration("dlang").get("command");
  return Array.isArray(words) && words.length > 0 ? words : ["dlc"];
}

async function start() {
  const [program, ...words] = command();
  const server = { command: program, args: [...words, "lsp"] };
  client = new LanguageClient("dlang", "dlang", server, {
    documentSelector: [{ scheme: "file", language: "dlang" }, { scheme: "untitled", language: "dlang" }],
    revealOutputChannelOn: RevealOutputChannelOn.Never,
  });
  try {
    await client.start();
  } catch (problem) {
    vscode.window.showErrorMessage(
      `dlang: \`${program}\` can't be started (${problem.message}). Install it with \`pip install 'dlang[lsp]'\`, ` +
        "or say in the setting `dlang.command` where it is."
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running && running.isRunning()) {
    await running.stop();
  }
}

function quoted(word) {
  return /^[\w./:=+-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`;
}

function inTerminal(...words) {
  const name = "dlang";
  const terminal = vscode.window.terminals.find((t) => t.name === name) || vscode.window.createTerminal(name);
  terminal.show(true);
  terminal.sendText([...command(), ...words].map(quoted).join(" "));
}

async function ofThisFile(...words) {
  const editor = vscode.window.activeTextEditor;
  if (editor && editor.document.languageId === "dlang") {
    await editor.document.save();
    inTerminal(...words, editor.document.fileName);
  }
}

async function activate(context) {
  const commands = {
    "dlang.run": (file) => inTerminal("run", file),
    "dlang.test": (file, name) => inTerminal("test", "--filter", name, file),
    "dlang.bench": (file, name) => inTerminal("bench", "--filter", name, file),
    "dlang.runFile": () => ofThisFile("run"),
    "dlang.testFile": () => ofThisFile("test"),
    "dlang.restart": async () => {
      await stop();
      await start();
    },
  };
  for (const [name, action] of Object.entries(commands)) {
    context.subscriptions.push(vscode.commands.registerCommand(name, action));
  }
  await start();
}

module.exports = { activate, deactivate: stop };
