package document

import (
	"maps"
	"slices"
)

// words are the fixed texts of a document in one language.
type words struct {
	Invoice, CreditNote             string
	Number, Issued, Month, Corrects string
	Seller, Buyer, TaxID, Email     string
	Service, Lines, Amount          string
	Exact, Rounded                  string // dollars of a section, before and after rounding
	NetworkFees, SwapFees           string
	NetworkFeeCredits               string
	Subtotal, Tax, Total, Credited  string // Tax has {rate}
	Rounding, Table, Missing, Page  string // Page has {page} and {pages}
	IsRTL                           bool
}

const english = "en"

// catalogue has the languages of the product.
var catalogue = map[string]words{
	english: {
		NetworkFeeCredits: "Prepaid or reduced network fees",
		Invoice:           "Invoice", CreditNote: "Credit note", Number: "Number", Issued: "Date of issue",
		Month:    "Month of service",
		Corrects: "Corrects invoice", Seller: "From", Buyer: "To", TaxID: "Tax ID", Email: "Email", Service: "Service",
		Lines: "Lines", Amount: "Amount", Exact: "Exact USD", Rounded: "USD", NetworkFees: "Network fees",
		SwapFees: "Swap fees", Subtotal: "Subtotal", Tax: "Tax ({rate}%)", Total: "Total", Credited: "Total credited",
		Rounding: "All sums are in US dollars. Only the sum of a section is rounded, half up, to cents.",
		Table:    "The CSV file of this document has every line with its transaction, price and time.",
		Missing:  "\ufffd stands for a character that this file cannot draw. The HTML page has all characters.",
		Page:     "Page {page} of {pages}",
	},
	"de": {
		NetworkFeeCredits: "Vorausbezahlte oder gesunkene Netzwerkgebühren",
		Invoice:           "Rechnung", CreditNote: "Rechnungskorrektur", Number: "Nummer", Issued: "Rechnungsdatum",
		Month: "Leistungsmonat", Corrects: "Korrigiert Rechnung", Seller: "Von", Buyer: "An", TaxID: "Steuernummer",
		Email: "E-Mail", Service: "Leistung", Lines: "Posten", Amount: "Menge", Exact: "USD genau", Rounded: "USD",
		NetworkFees: "Netzwerkgebühren", SwapFees: "Tauschgebühren", Subtotal: "Zwischensumme",
		Tax: "Steuer ({rate} %)", Total: "Gesamtbetrag", Credited: "Gutgeschriebener Betrag",
		Rounding: "Alle Summen sind in US-Dollar. Nur die Summe eines Abschnitts ist kaufmännisch auf Cent gerundet.",
		Table:    "Die CSV-Datei zu diesem Dokument enthält jeden Posten mit Transaktion, Preis und Zeit.",
		Missing:  "\ufffd steht für ein Zeichen, das diese Datei nicht darstellen kann. Die HTML-Seite hat alle.",
		Page:     "Seite {page} von {pages}",
	},
	"fr": {
		NetworkFeeCredits: "Frais de réseau prépayés ou réduits",
		Invoice:           "Facture", CreditNote: "Avoir", Number: "Numéro", Issued: "Date d’émission",
		Month:    "Mois de prestation",
		Corrects: "Corrige la facture", Seller: "De", Buyer: "À", TaxID: "Numéro fiscal", Email: "E-mail",
		Service: "Prestation", Lines: "Lignes", Amount: "Quantité", Exact: "USD exact", Rounded: "USD",
		NetworkFees: "Frais de réseau", SwapFees: "Frais d’échange", Subtotal: "Sous-total", Tax: "Taxe ({rate} %)",
		Total: "Total", Credited: "Total crédité",
		Rounding: "Toutes les sommes sont en dollars américains. Seule la somme d’une section est arrondie au cent, " +
			"le demi-cent vers le haut.",
		Table:   "Le fichier CSV de ce document contient chaque ligne avec sa transaction, son prix et son heure.",
		Missing: "\ufffd remplace un caractère que ce fichier ne peut pas afficher. La page HTML les a tous.",
		Page:    "Page {page} sur {pages}",
	},
	"es": {
		NetworkFeeCredits: "Comisiones de red prepagadas o reducidas",
		Invoice:           "Factura", CreditNote: "Nota de crédito", Number: "Número", Issued: "Fecha de emisión",
		Month:    "Mes del servicio",
		Corrects: "Corrige la factura", Seller: "De", Buyer: "Para", TaxID: "Identificación fiscal",
		Email: "Correo electrónico", Service: "Servicio", Lines: "Líneas", Amount: "Cantidad", Exact: "USD exacto",
		Rounded: "USD", NetworkFees: "Comisiones de red", SwapFees: "Comisiones de intercambio", Subtotal: "Subtotal",
		Tax: "Impuesto ({rate} %)", Total: "Total", Credited: "Total abonado",
		Rounding: "Todas las sumas están en dólares estadounidenses. Solo la suma de una sección se redondea a " +
			"centavos; medio centavo, hacia arriba.",
		Table:   "El archivo CSV de este documento contiene cada línea con su transacción, precio y hora.",
		Missing: "\ufffd sustituye a un carácter que este archivo no puede mostrar. La página HTML tiene todos.",
		Page:    "Página {page} de {pages}",
	},
	"pt-BR": {
		NetworkFeeCredits: "Taxas de rede pré-pagas ou reduzidas",
		Invoice:           "Fatura", CreditNote: "Nota de crédito", Number: "Número", Issued: "Data de emissão",
		Month:    "Mês do serviço",
		Corrects: "Corrige a fatura", Seller: "De", Buyer: "Para", TaxID: "Identificação fiscal", Email: "E-mail",
		Service: "Serviço", Lines: "Linhas", Amount: "Quantidade", Exact: "USD exato", Rounded: "USD",
		NetworkFees: "Taxas de rede", SwapFees: "Taxas de troca", Subtotal: "Subtotal", Tax: "Imposto ({rate}%)",
		Total: "Total", Credited: "Total creditado",
		Rounding: "Todas as somas estão em dólares americanos. Só a soma de uma seção é arredondada para centavos; " +
			"meio centavo, para cima.",
		Table:   "O arquivo CSV deste documento contém cada linha com sua transação, preço e hora.",
		Missing: "\ufffd substitui um caractere que este arquivo não consegue mostrar. A página HTML tem todos.",
		Page:    "Página {page} de {pages}",
	},
	"ja": {
		NetworkFeeCredits: "前払いまたは減額されたネットワーク手数料",
		Invoice:           "請求書", CreditNote: "返還請求書", Number: "番号", Issued: "発行日", Month: "対象月", Corrects: "訂正する請求書",
		Seller: "発行者", Buyer: "宛先", TaxID: "税務番号", Email: "メール", Service: "項目", Lines: "明細数",
		Amount: "数量", Exact: "USD（丸め前）", Rounded: "USD", NetworkFees: "ネットワーク手数料", SwapFees: "スワップ手数料",
		Subtotal: "小計", Tax: "税（{rate}%）", Total: "合計", Credited: "返還合計",
		Rounding: "金額はすべて米ドルです。セクションの合計だけをセント単位に四捨五入しています。",
		Table:    "すべての明細とその取引、価格、時刻は、この書類の CSV ファイルにあります。",
		Missing:  "\ufffd は、このファイルで表示できない文字です。HTML ページにはすべての文字があります。",
		Page:     "{page} / {pages} ページ",
	},
	"zh-Hans": {
		NetworkFeeCredits: "预付或减少的网络费",
		Invoice:           "账单", CreditNote: "贷记单", Number: "编号", Issued: "开具日期", Month: "服务月份", Corrects: "更正的账单",
		Seller: "开具方", Buyer: "接收方", TaxID: "税号", Email: "电子邮件", Service: "项目", Lines: "明细数",
		Amount: "数量", Exact: "USD（舍入前）", Rounded: "USD", NetworkFees: "网络费", SwapFees: "兑换费",
		Subtotal: "小计", Tax: "税（{rate}%）", Total: "合计", Credited: "贷记合计",
		Rounding: "所有金额以美元计。只有各部分的合计四舍五入到美分。",
		Table:    "本文件的 CSV 列出每条明细及其交易、价格和时间。",
		Missing:  "\ufffd 表示此文件无法显示的字符。HTML 页面有全部字符。",
		Page:     "第 {page} 页，共 {pages} 页",
	},
	"ar": {
		NetworkFeeCredits: "رسوم شبكة مدفوعة مسبقا أو مخفضة",
		Invoice:           "فاتورة", CreditNote: "إشعار دائن", Number: "الرقم",
		Issued: "تاريخ الإصدار", Month: "شهر الخدمة",
		Corrects: "يصحح الفاتورة", Seller: "من", Buyer: "إلى", TaxID: "الرقم الضريبي", Email: "البريد الإلكتروني",
		Service: "الخدمة", Lines: "البنود", Amount: "الكمية", Exact: "الدولار قبل التقريب", Rounded: "دولار أمريكي",
		NetworkFees: "رسوم الشبكة", SwapFees: "رسوم المبادلة", Subtotal: "المجموع الفرعي", Tax: "الضريبة ({rate}%)",
		Total: "الإجمالي", Credited: "إجمالي المبلغ الدائن",
		Rounding: "جميع المبالغ بالدولار الأمريكي. لا يقرب إلى السنت إلا مجموع كل قسم، ونصف السنت إلى الأعلى.",
		Table:    "يحتوي ملف CSV لهذا المستند على كل بند مع معاملته وسعره ووقته.",
		Missing:  "العلامة \ufffd تحل محل حرف لا يمكن لهذا الملف عرضه. صفحة HTML تحتوي على جميع الأحرف.",
		Page:     "صفحة {page} من {pages}",
		IsRTL:    true,
	},
}

// Languages are the languages in which documents have words.
func Languages() []string { return slices.Sorted(maps.Keys(catalogue)) }

// language returns the language in which the words of a document are.
func (i Invoice) language() string {
	if _, ok := catalogue[i.Language]; ok {
		return i.Language
	}
	return english
}

func findWords(language string) words {
	if w, ok := catalogue[language]; ok {
		return w
	}
	return catalogue[english]
}

// direction is the value of the attribute dir.
func (w words) direction() string {
	if w.IsRTL {
		return "rtl"
	}
	return "ltr"
}
